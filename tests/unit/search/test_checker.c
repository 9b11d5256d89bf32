/* SPDX-License-Identifier: MIT
 *
 * Programs as verifiers (hostile_checker.h is one): what they do to one candidate must not change what another gets.
 */
#include "unit/engine/engine_fixture.h"
#include "hostile_checker.h"

/* ---- tests ---- */

static lutra_verifier *open_checker(uint64_t timeout_us, int64_t memory_bytes)
{
    lutra_verifier *v;
    struct lutra_verifier_settings set;
    lutra_verifier_settings_init(&set, sizeof set);
    set.command = CHECKER;
    set.timeout_us = timeout_us;
    set.memory_bytes = memory_bytes;
    OK(lutra_verifier_open(&v, "program", &set, err));
    return v;
}

/* The reward of a text, or -1 with the reason in *why. */
static double ask(lutra_verifier *v, const char *text, struct lutra_error *why)
{
    struct lutra_check check;
    double reward = -1;
    lutra_check_init(&check, sizeof check);
    check.question = "what?";
    check.text = text;
    int rc = lutra_verifier_check(v, &check, &reward, why);
    assert_true(rc == 0 || rc == LUTRA_E_NOT_FOUND);
    return rc == 0 ? reward : -1;
}

static void innocents_keep_their_rewards(void **state)
{
    (void)state;
    int n = is_long() ? 1000 : 120, n_answered = 0;
    lutra_verifier *v = open_checker(2000000, 0);
    for (int i = 0; i < n; i++) {
        struct lutra_error why = {.what = ""};
        char text[64];
        int deed =
            i < N_DEED ? i : (int)(hash((char *)&i, sizeof i) % (is_long() && i % 4 == 0 ? N_DEED : N_DEED - N_SLOW));
        if (!strcmp(deeds[deed], "memory")) continue; /* no_more_memory */
        snprintf(text, sizeof text, "DEED %s", deeds[deed]);
        double hostile = ask(v, text, &why);
        bool answers = deed_answers(deeds[deed]);
        if (hostile != (answers ? 0.25 : -1)) fail_msg("%s: %g, %s", deeds[deed], hostile, why.what);
        if (i < N_DEED) print_message("%-14s %s\n", deeds[deed], answers ? "(answers first)" : why.what);
        for (int k = 0; k < 2; k++) {
            snprintf(text, sizeof text, "%d answers %d", i, k);
            double reward = ask(v, text, &why);
            if (reward != reward_of(text)) fail_msg("'%s' after %s: %g, %s", text, deeds[deed], reward, why.what);
            n_answered++;
        }
    }
    assert_true(n_answered >= 2 * (n - 60));
    lutra_verifier_close(&v);
}

static void large_texts(void **state)
{
    (void)state;
    lutra_verifier *v = open_checker(20000000, 0);
    struct lutra_error why = {.what = ""};
    char *text = malloc((1 << 21) + 1);
    memset(text, 'a', 1 << 21);
    text[1 << 21] = 0;
    assert_true(ask(v, text, &why) == reward_of(text));
    lutra_verifier_close(&v);
    v = open_checker(500000, 0);
    memcpy(text, "DEED hang", 10);
    ask(v, text, &why);
    assert_non_null(strstr(why.what, "time limit"));
    free(text);
    lutra_verifier_close(&v);
}

static void text_arrives_whole(void **state)
{
    (void)state;
    lutra_verifier *v;
    struct lutra_verifier_settings set;
    struct lutra_error why = {.what = ""};
    struct lutra_check check;
    double reward = -1;
    char path[] = "/tmp/lutra-check-XXXXXX", command[256], line[512] = "";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    lutra_verifier_settings_init(&set, sizeof set);
    snprintf(command, sizeof command,
        "sh -c 'IFS= read -r a; printf %%s \"$a\" > %s; b=${a#*:}; echo \"{\\\"id\\\":${b%%%%,*},\\\"reward\\\":1}\"'",
        path);
    set.command = command;
    OK(lutra_verifier_open(&v, "program", &set, err));
    lutra_check_init(&check, sizeof check);
    check.question = "\"quoted\" \\ and\ttab";
    check.text = "line\nline \xc3\xa4 \xff.";
    check.step = "line \xc3\xa4 \xff.";
    check.whole = false;
    assert_int_equal(lutra_verifier_check(v, &check, &reward, &why), 0);
    assert_true(reward == 1);
    assert_true(read(fd, line, sizeof line - 1) > 0);
    assert_string_equal(strchr(line, ','),
        ",\"question\":\"\\\"quoted\\\" \\\\ and\\u0009tab\",\"text\":\"line\\u000aline \xc3\xa4 "
        "\xef\xbf\xbd.\",\"step\":\"line \xc3\xa4 \xef\xbf\xbd.\",\"whole\":false}");
    lutra_verifier_close(&v);
    close(fd);
    unlink(path);
}

static void replies(void **state)
{
    (void)state;
    static const struct {
        const char *reply;
        double reward; /* -1: none */
    } cases[] = {{"{\"id\":@,\"reward\":0.7}", 0.7},
        {" { \"reward\" : 1e-3 , \"note\":\"a\\\"}b\", \"x\":null, \"id\" : @.0 } ", 1e-3},
        {"{\"reward\":1,\"id\":@}\r", 1}, {"{\"id\":@,\"reward\":-0}", 0}, {"{\"id\":@,\"reward\":25e-2}", 0.25},
        {"{\"id\":@,\"reward\":0.333333333333333333333}", 0.333333333333333}, {"{\"id\":@,\"reward\":1.0000001}", -1},
        {"{\"id\":@,\"reward\":-0.1}", -1}, {"{\"id\":@,\"reward\":nan}", -1}, {"{\"id\":@,\"reward\":1e400}", -1},
        {"{\"id\":@}", -1}, {"{\"id\":@,\"reward\":1", -1}, {"{\"id\":@,\"reward\":1} x", -1}, {"[1]", -1}, {"", -1},
        {"{\"id\":@,\"reward\":.}", -1}, {"{\"id\":@,\"reward\":1e}", -1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lutra_verifier *v;
        struct lutra_verifier_settings set;
        struct lutra_error why = {.what = ""};
        char path[] = "/tmp/lutra-check-XXXXXX", command[192];
        int fd = mkstemp(path);
        assert_true(fd >= 0 && write(fd, cases[i].reply, strlen(cases[i].reply)) >= 0 && write(fd, "\n", 1) == 1);
        lutra_verifier_settings_init(&set, sizeof set);
        snprintf(
            command, sizeof command, "sh -c 'read a; a=${a#*:}; sed \"s/@/${a%%%%,*}/\" %s; cat >/dev/null'", path);
        set.command = command;
        set.restarts = 0;
        OK(lutra_verifier_open(&v, "program", &set, err));
        double reward = ask(v, "text", &why);
        if (fabs(reward - cases[i].reward) > 1e-15) fail_msg("'%s' is %.17g: %s", cases[i].reply, reward, why.what);
        lutra_verifier_close(&v);
        close(fd);
        unlink(path);
    }
}

static void restarts_end(void **state)
{
    (void)state;
    lutra_verifier *v;
    struct lutra_verifier_settings set;
    struct lutra_error why = {.what = ""};
    lutra_verifier_settings_init(&set, sizeof set);
    set.command = CHECKER;
    set.restarts = 3;
    OK(lutra_verifier_open(&v, "program", &set, err));
    assert_true(ask(v, "DEED exit", &why) < 0);
    assert_non_null(strstr(why.what, "code 3"));
    assert_true(ask(v, "fine", &why) == reward_of("fine")); /* the third */
    assert_true(ask(v, "DEED exit", &why) < 0);
    assert_true(ask(v, "fine", &why) < 0);
    assert_non_null(strstr(why.what, "3 times"));
    lutra_verifier_close(&v);
}

static void no_more_memory(void **state)
{
    (void)state;
    lutra_verifier *v = open_checker(60000000, (int64_t)512 << 20);
    struct lutra_error why = {.what = ""};
    assert_true(ask(v, "fine", &why) == reward_of("fine"));
    assert_true(ask(v, "DEED memory", &why) < 0);
    assert_non_null(strstr(why.what, "code 5"));
    assert_true(ask(v, "fine", &why) == reward_of("fine"));
    lutra_verifier_close(&v);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *command, *why;
        int code;
    } cases[] = {{NULL, "no command", LUTRA_E_ARGUMENT}, {"", "empty", LUTRA_E_ARGUMENT},
        {"  ", "empty", LUTRA_E_ARGUMENT}, {"sh 'a", "not closed", LUTRA_E_ARGUMENT},
        {"sh \\", "backslash", LUTRA_E_ARGUMENT}, {"''", "empty", LUTRA_E_ARGUMENT},
        {"/no/such/program x", "cannot be run", LUTRA_E_IO}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lutra_verifier *v;
        struct lutra_verifier_settings set;
        struct lutra_error why = {.what = ""};
        lutra_verifier_settings_init(&set, sizeof set);
        set.command = cases[i].command;
        int rc = lutra_verifier_open(&v, "program", &set, &why);
        if (rc != cases[i].code || !strstr(why.what, cases[i].why))
            fail_msg("%s: %d, %s", cases[i].command, rc, why.what);
        assert_null(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(refused), cmocka_unit_test(text_arrives_whole),
        cmocka_unit_test(replies), cmocka_unit_test(restarts_end), cmocka_unit_test(large_texts),
        cmocka_unit_test(no_more_memory), cmocka_unit_test(innocents_keep_their_rewards)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
