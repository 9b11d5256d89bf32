/* SPDX-License-Identifier: MIT
 *
 * JSON Schema as a verifier: what holds, and what hostile schemas and texts may not do.
 */
#include "unit/engine/engine_fixture.h"

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
    struct lutra_verifier_settings set;
    lutra_verifier_settings_init(&set, sizeof set);
    if (schema) write_file(file, schema);
    snprintf(command, sizeof command, "json-schema:%s", file);
    set.command = command;
    set.timeout_us = timeout_us;
    return lutra_verifier_open(v, "program", &set, why);
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

/* Each keyword: a schema, a text that holds, one that does not. */
static void every_keyword(void **state)
{
    (void)state;
    static const char *const cases[][3] = {{"{\"type\":[\"integer\",\"null\"]}", "3.0", "3.5"},
        {"{\"type\":\"number\"}", "18446744073709551616", "\"1\""},
        {"{\"type\":\"integer\"}", "18446744073709551616", "true"},
        {"{\"enum\":[1,\"a\",{\"b\":[2]}]}", "{\"b\":[2.0]}", "{\"b\":[3]}"},
        {"{\"const\":{\"a\":1,\"b\":2}}", "{\"b\":2,\"a\":1.0}", "{\"b\":2}"},
        {"{\"const\":18446744073709551616}", "18446744073709551616", "18446744073709551617"},
        {"{\"allOf\":[{\"minimum\":1},{\"maximum\":2}]}", "2", "3"},
        {"{\"anyOf\":[{\"type\":\"string\"},{\"minimum\":5}]}", "\"\"", "4"},
        {"{\"oneOf\":[{\"minimum\":1},{\"maximum\":3}]}", "4", "2"}, {"{\"not\":{\"type\":\"null\"}}", "0", "null"},
        {"{\"if\":{\"type\":\"string\"},\"then\":{\"minLength\":2},\"else\":{\"minimum\":2}}", "\"ab\"", "1"},
        {"{\"if\":{\"type\":\"string\"},\"then\":{\"minLength\":2}}", "1", "\"a\""},
        {"{\"required\":[\"a\"]}", "{\"a\":null}", "{}"},
        {"{\"properties\":{\"a\":{\"type\":\"null\"}}}", "{\"b\":1}", "{\"a\":1}"},
        {"{\"properties\":{\"a\":true},\"additionalProperties\":{\"type\":\"null\"}}", "{\"a\":1,\"b\":null}",
            "{\"b\":1}"},
        {"{\"patternProperties\":{\"^x\":{\"type\":\"null\"}},\"additionalProperties\":false}", "{\"xy\":null}",
            "{\"y\":null}"},
        {"{\"propertyNames\":{\"maxLength\":1}}", "{\"\\u00e9\":1}", "{\"ab\":1}"},
        {"{\"minProperties\":1,\"maxProperties\":1}", "{\"a\":1}", "{\"a\":1,\"b\":1}"},
        {"{\"dependentRequired\":{\"a\":[\"b\"]}}", "{\"a\":1,\"b\":1}", "{\"a\":1}"},
        {"{\"dependentSchemas\":{\"a\":{\"required\":[\"b\"]}}}", "{}", "{\"a\":1}"},
        {"{\"items\":{\"type\":\"null\"}}", "[]", "[null,1]"},
        {"{\"prefixItems\":[{\"type\":\"null\"}],\"items\":false}", "[null]", "[null,null]"},
        {"{\"items\":[{\"type\":\"null\"}]}", "[null,7]", "[7]"}, {"{\"contains\":{\"const\":1}}", "[0,1]", "[0]"},
        {"{\"contains\":{\"const\":1},\"minContains\":2,\"maxContains\":2}", "[1,1]", "[1,1,1]"},
        {"{\"minItems\":1,\"maxItems\":2}", "[1]", "[]"}, {"{\"uniqueItems\":true}", "[1,2,\"1\"]", "[1,1.0]"},
        {"{\"minLength\":2,\"maxLength\":2}", "\"\\u00e9\\ud83e\\udd99\"", "\"abc\""},
        {"{\"pattern\":\"^a$\"}", "\"a\"", "\"a\\n\""},
        {"{\"pattern\":\"\\\\u00e9{2}\"}", "\"x\\u00e9\\u00e9\"", "\"\\u00e9\""},
        {"{\"pattern\":\"^\\\\p{L}+$\"}", "\"\\u00e9\"", "\"1\""},
        {"{\"format\":\"date\"}", "\"2024-02-29\"", "\"2023-02-29\""}, {"{\"format\":\"date\"}", "3", "\"2024-02-30\""},
        {"{\"format\":\"time\"}", "\"23:59:59Z\"", "\"24:00:00Z\""},
        {"{\"format\":\"date-time\"}", "\"2024-01-31T00:00:00.5+01:00\"", "\"2024-01-31 00:00:00Z\""},
        {"{\"format\":\"uuid\"}", "\"123e4567-e89b-12d3-a456-426614174000\"", "\"123e4567\""},
        {"{\"format\":\"email\"}", "\"a@b.c\"", "\"a b@c\""},
        {"{\"format\":\"ipv4\"}", "\"127.0.0.1\"", "\"127.0.0.256\""}, {"{\"format\":\"ipv6\"}", "\"::1\"", "\":::1\""},
        {"{\"format\":\"hostname\"}", "\"a-b.c\"", "\"-a\""}, {"{\"format\":\"uri\"}", "\"http://a/b?c\"", "\"a b\""},
        {"{\"minimum\":2,\"exclusiveMaximum\":3}", "2", "3"},
        {"{\"exclusiveMinimum\":2,\"maximum\":9007199254740993}", "9007199254740993", "9007199254740994"},
        {"{\"multipleOf\":0.01}", "4.35", "4.355"}, {"{\"multipleOf\":3}", "-9", "10"},
        {"{\"maximum\":1e20}", "99999999999999999999", "1e999"},
        {"{\"$ref\":\"#/$defs/a~1b/items\",\"maximum\":5,\"$defs\":{\"a/b\":{\"items\":{\"minimum\":3}}}}", "4", "6"},
        {"{\"properties\":{\"next\":{\"$ref\":\"#\"}},\"additionalProperties\":false}", "{\"next\":{\"next\":{}}}",
            "{\"next\":{\"x\":1}}"},
        {"{\"minimum\":1}", "{\"a\":1,\"a\":2}", "0"}, {"true", "[1]", "[1"}};
    lutra_verifier *v;
    struct lutra_error why;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OK(open_schema(&v, cases[i][0], 60000000, err));
        if (ask(v, cases[i][1], true, &why) != 1) fail_msg("%s: %s should hold", cases[i][0], cases[i][1]);
        if (ask(v, cases[i][2], true, &why) != 0) fail_msg("%s: %s should not hold", cases[i][0], cases[i][2]);
        lutra_verifier_close(&v);
    }
}

static void schemas_that_are_none(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *why;
        int code;
    } cases[] = {{"{\"type\": \"number", "line 1", LUTRA_E_FORMAT},
        {"{\"type\": \"nonsense\"}", "#/type", LUTRA_E_FORMAT}, {"7", "an object", LUTRA_E_FORMAT},
        {"", "line 1", LUTRA_E_FORMAT}, {"{\"pattern\": 7}", "#/pattern", LUTRA_E_FORMAT},
        {"{\"items\": {\"pattern\": \"(\"}}", "#/items/pattern", LUTRA_E_FORMAT},
        {"{\"anyOf\": []}", "#/anyOf", LUTRA_E_FORMAT},
        {"{\"allOf\": [true, {\"minLength\": -1}]}", "#/allOf/1/minLength", LUTRA_E_FORMAT},
        {"{\"minItems\": 1.5}", "#/minItems", LUTRA_E_FORMAT}, {"{\"multipleOf\": 0}", "#/multipleOf", LUTRA_E_FORMAT},
        {"{\"required\": [1]}", "#/required", LUTRA_E_FORMAT},
        {"{\"exclusiveMinimum\": true}", "#/exclusiveMinimum", LUTRA_E_FORMAT},
        {"{\"$ref\": \"#/$defs/a\"}", "#/$ref", LUTRA_E_FORMAT},
        {"{\"items\": {\"unevaluatedItems\": false}}", "#/items/unevaluatedItems", LUTRA_E_UNSUPPORTED},
        {"{\"$dynamicRef\": \"#a\"}", "#/$dynamicRef", LUTRA_E_UNSUPPORTED},
        {"{\"format\": \"iri\"}", "#/format", LUTRA_E_UNSUPPORTED}};
    lutra_verifier *v;
    struct lutra_error why;
    struct lutra_verifier_settings set;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int rc = open_schema(&v, cases[i].schema, 60000000, &why);
        if (rc != cases[i].code || !strstr(why.what, cases[i].why) || !strstr(why.what, file))
            fail_msg("'%s': %d, %s", cases[i].schema, rc, why.what);
        assert_null(v);
    }
    unlink(file);
    assert_int_equal(open_schema(&v, NULL, 60000000, &why), LUTRA_E_IO);
    assert_non_null(strstr(why.what, "No such file"));
    lutra_verifier_settings_init(&set, sizeof set);
    set.command = "json-schema";
    assert_int_equal(lutra_verifier_open(&v, "program", &set, &why), LUTRA_E_ARGUMENT);
    assert_non_null(strstr(why.what, "json-schema:FILE"));
}

/* References to other files and hosts are refused; nobody asks for them. */
static void nothing_is_fetched(void **state)
{
    (void)state;
    static const char *const refs[] = {
        "http://127.0.0.1:1/x.json", "file:///etc/hosts", "other.json", "//host/x", "#name", ""};
    lutra_verifier *v;
    struct lutra_error why;
    for (size_t i = 0; i < sizeof refs / sizeof *refs; i++) {
        char schema[512];
        snprintf(schema, sizeof schema, "{\"properties\": {\"a\": {\"$ref\": \"%s\"}}}", refs[i]);
        assert_int_equal(open_schema(&v, schema, 60000000, &why), LUTRA_E_UNSUPPORTED);
        assert_non_null(strstr(why.what, "#/properties/a/$ref"));
    }
}

/* Endless patterns, references and combinations end with a reason, and the next text is judged. */
static void endless_matches_end(void **state)
{
    (void)state;
    static const struct {
        const char *schema, *text, *why, *other;
        double reward;
    } cases[] = {
        {"{\"pattern\": \"^(a+)+$\"}", "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\"", "too long", "\"aaaa!\"", 0},
        {"{\"$ref\": \"#\"}", "1", "without end", "1", -1},
        {"{\"items\":{\"$ref\":\"#/$defs/a\"},\"$defs\":{\"a\":{\"anyOf\":[{\"items\":{\"$ref\":\"#/$defs/"
         "a\"},\"maxItems\":0,\"minItems\":1},"
         "{\"items\":{\"$ref\":\"#/$defs/a\"},\"not\":true},{\"items\":{\"$ref\":\"#/$defs/a\"},\"not\":true}]}}}",
            "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", "too many steps", "[]", 1}};
    lutra_verifier *v;
    struct lutra_error why;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OK(open_schema(&v, cases[i].schema, 60000000, err));
        if (ask(v, cases[i].text, true, &why) != -1 || !strstr(why.what, cases[i].why))
            fail_msg("%s: %s", cases[i].schema, why.what);
        assert_true(ask(v, cases[i].other, true, &why) == cases[i].reward);
        lutra_verifier_close(&v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_holds), cmocka_unit_test(every_keyword),
        cmocka_unit_test(schemas_that_are_none), cmocka_unit_test(nothing_is_fetched),
        cmocka_unit_test(endless_matches_end)};
    if (!mkdtemp(folder)) return 1;
    snprintf(file, sizeof file, "%s/it's a schema.json", folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(file);
    rmdir(folder);
    return failed;
}
