/* SPDX-License-Identifier: MIT
 *
 * JSON Schema as a verifier: what holds, and what hostile schemas and texts may not do.
 */
#include "unit/engine/engine_fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/lutra-schema-XXXXXX", file[64];

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static int open_schema(lutra_verifier **v, const char *schema, uint64_t timeout_us, struct lutra_error *why)
{
    char command[96];
    struct lutra_checker_settings set;
    lutra_checker_settings_init(&set, sizeof set);
    if (schema) write_file(file, schema);
    snprintf(command, sizeof command, "json-schema:%s", file);
    set.command = command;
    set.timeout_us = timeout_us;
    return lutra_verifier_open_checker(v, &set, why);
}

/* The reward of a text; -1 = none, with the reason in *why. */
static double ask(lutra_verifier *v, const char *text, bool whole, struct lutra_error *why)
{
    struct lutra_check check;
    double reward = -1;
    lutra_check_init(&check, sizeof check);
    check.text = text;
    check.whole = whole;
    return lutra_verifier_check(v, &check, &reward, why) == 0 ? reward : -1;
}

static void what_holds(void **state)
{
    (void)state;
    static const char schema[] = "{\"type\":\"object\",\"required\":[\"name\",\"age\"],\"additionalProperties\":false,"
                                 "\"properties\":{\"name\":{\"type\":\"string\",\"pattern\":\"^[A-Z]\"},"
                                 "\"age\":{\"$ref\":\"#/$defs/age\"}},\"$defs\":{\"age\":{\"type\":\"integer\","
                                 "\"minimum\":0}}}";
    static const struct {
        const char *text;
        double reward;
    } cases[] = {{"{\"name\": \"Ada\", \"age\": 36}", 1}, {" \n{\"age\":0,\"name\":\"\\u00c4B\"}\n", 0},
        {"{\"name\": \"Ada\", \"age\": -1}", 0}, {"{\"name\": \"ada\", \"age\": 1}", 0}, {"{\"name\": \"Ada\"}", 0},
        {"{\"name\": \"Ada\", \"age\": 36, \"x\": 1}", 0}, {"{\"name\": \"Ada\", \"age\": 36", 0}, {"", 0}, {"[]", 0},
        {"Here it is:\n```json\n{\"name\": \"Ada\", \"age\": 36}\n```\nDone.", 1},
        {"```\n{\"name\": \"Ada\", \"age\": 36}\n```\nNo:\n```\n{}\n```", 0}, {"{\"name\": \"Ada\", \"age\": NaN}", 0},
        {"{\"name\": \"Ada\", \"age\": 36} {}", 0}, {"\xff\xfe", 0}};
    lutra_verifier *v;
    struct lutra_error why;
    OK(open_schema(&v, schema, 60000000, err));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (ask(v, cases[i].text, true, &why) != cases[i].reward) fail_msg("'%s': %s", cases[i].text, why.what);
    assert_true(ask(v, "{\"name\":", false, &why) == 1); /* nothing is known yet */
    static char deep[200001];
    memset(deep, '[', 200000);
    assert_true(ask(v, deep, true, &why) == 0);
    lutra_verifier_close(&v);
}

static void schemas_that_are_none(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *why;
    } cases[] = {{"{\"type\": \"number", "line 1"}, {"{\"type\": \"nonsense\"}", "nonsense"}, {"7", "an object"},
        {"", "line 1"}, {"{\"pattern\": 7}", "7"}};
    lutra_verifier *v;
    struct lutra_error why;
    struct lutra_checker_settings set;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int rc = open_schema(&v, cases[i].schema, 60000000, &why);
        if (rc != LUTRA_E_ARGUMENT || !strstr(why.what, cases[i].why) || !strstr(why.what, file))
            fail_msg("'%s': %d, %s", cases[i].schema, rc, why.what);
        assert_null(v);
    }
    unlink(file);
    assert_int_equal(open_schema(&v, NULL, 60000000, &why), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(why.what, "No such file"));
    lutra_checker_settings_init(&set, sizeof set);
    set.command = "json-schema";
    assert_int_equal(lutra_verifier_open_checker(&v, &set, &why), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(why.what, "json-schema:FILE"));
}

/* A socket that nobody may come to. */
static int listen_at(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static void nothing_is_fetched(void **state)
{
    (void)state;
    char other[64], ref[3][128] = {"", "", "other.json"};
    int port, fd = listen_at(&port);
    setenv("no_proxy", "127.0.0.1", 1);
    lutra_verifier *v;
    struct lutra_error why;
    snprintf(other, sizeof other, "%s/other.json", folder);
    write_file(other, "true");
    snprintf(ref[0], sizeof ref[0], "http://127.0.0.1:%d/x.json", port);
    snprintf(ref[1], sizeof ref[1], "file://%s", other);
    for (int i = 0; i < 3; i++) {
        char schema[512];
        snprintf(schema, sizeof schema, "{\"properties\": {\"a\": {\"$ref\": \"%s\"}}}", ref[i]);
        OK(open_schema(&v, schema, 60000000, err));
        assert_true(ask(v, "{\"b\": 1}", true, &why) == 1); /* the reference is not needed */
        if (ask(v, "{\"a\": 1}", true, &why) != -1) fail_msg("%s was fetched", ref[i]);
        print_message("%s\n", why.what);
        assert_true(ask(v, "{\"b\": 1}", true, &why) == 1);
        lutra_verifier_close(&v);
    }
    assert_int_equal(accept(fd, NULL, NULL), -1);
    close(fd);
    unlink(other);
}

static void endless_matches_end(void **state)
{
    (void)state;
    lutra_verifier *v;
    struct lutra_error why;
    OK(open_schema(&v, "{\"pattern\": \"^(a+)+$\"}", 4000000, err));
    assert_true(ask(v, "\"aaaa\"", true, &why) == 1);
    assert_true(ask(v, "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\"", true, &why) == -1);
    assert_non_null(strstr(why.what, "time limit"));
    assert_true(ask(v, "\"aaaa!\"", true, &why) == 0);
    lutra_verifier_close(&v);
    OK(open_schema(&v, "{\"$ref\": \"#\"}", 60000000, err)); /* an endless schema */
    assert_true(ask(v, "1", true, &why) == -1);
    assert_non_null(strstr(why.what, "recursion"));
    lutra_verifier_close(&v);
}

static void absence_is_told(void **state)
{
    (void)state;
    char *path = strdup(getenv("PATH")), python[64], script[512];
    lutra_verifier *v;
    struct lutra_error why;
    FILE *which = popen("command -v python3", "r");
    char real[256] = "";
    assert_true(fgets(real, sizeof real, which) != NULL);
    pclose(which);
    real[strcspn(real, "\n")] = 0;
    snprintf(python, sizeof python, "%s/python3", folder);
    snprintf(script, sizeof script, "#!/bin/sh\nPATH='%s'\nexec '%s' -S \"$@\"\n", path, real);
    setenv("PATH", folder, 1);
    int without = open_schema(&v, "true", 60000000, &why);
    bool named = strstr(why.what, "'python3' cannot be run") != NULL;
    write_file(python, script);
    chmod(python, 0755);
    int bare = open_schema(&v, "true", 60000000, &why);
    setenv("PATH", path, 1);
    assert_int_equal(without, LUTRA_E_IO);
    assert_true(named);
    assert_int_equal(bare, LUTRA_E_ARGUMENT);
    assert_non_null(strstr(why.what, "python3-jsonschema"));
    unlink(python);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_holds), cmocka_unit_test(schemas_that_are_none),
        cmocka_unit_test(nothing_is_fetched), cmocka_unit_test(endless_matches_end), cmocka_unit_test(absence_is_told)};
    if (system("python3 -I -c 'import jsonschema' 2>/dev/null")) {
        printf("skipped: Python has no jsonschema (Debian: python3-jsonschema)\n");
        return 77;
    }
    if (!mkdtemp(folder)) return 1;
    snprintf(file, sizeof file, "%s/it's a schema.json", folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(file);
    rmdir(folder);
    return failed;
}
