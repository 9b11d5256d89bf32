/* SPDX-License-Identifier: MIT
 *
 * base/log and base/status: levels, whole lines from many threads, long texts cut, failures described.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "base/log.h"

struct sink {
    int n_line; /* plain: the log's mutex guards it */
    enum lutra_log_level level;
    char last[2048];
};

static void keep(void *user, enum lutra_log_level level, const char *line)
{
    struct sink *sink = user;
    sink->n_line++;
    sink->level = level;
    strncpy(sink->last, line, sizeof sink->last - 1);
}

static void test_levels(void **state)
{
    struct sink sink = {0};
    struct log log;
    (void)state;
    log_init(&log, keep, &sink, LUTRA_LOG_WARN);
    log_line(&log, LUTRA_LOG_INFO, "dropped");
    assert_int_equal(sink.n_line, 0);
    log_line(&log, LUTRA_LOG_WARN, "%s has %d tensors", "a.gguf", 3);
    assert_int_equal(sink.n_line, 1);
    assert_int_equal(sink.level, LUTRA_LOG_WARN);
    assert_string_equal(sink.last, "a.gguf has 3 tensors");
    assert_true(log_wants(&log, LUTRA_LOG_ERROR));
    assert_false(log_wants(&log, LUTRA_LOG_DEBUG));
    log_line(&log, LUTRA_LOG_ERROR, "%2000s", "x");
    assert_int_equal(strlen(sink.last), 1023);
    log_fini(&log);
}

static void test_nobody_listens(void **state)
{
    struct log log;
    (void)state;
    assert_false(log_wants(NULL, LUTRA_LOG_ERROR));
    log_line(NULL, LUTRA_LOG_ERROR, "nothing happens");
    log_init(&log, NULL, NULL, LUTRA_LOG_DEBUG);
    assert_false(log_wants(&log, LUTRA_LOG_ERROR));
    log_line(&log, LUTRA_LOG_ERROR, "nothing happens");
    log_fini(&log);
}

static void *write_often(void *arg)
{
    for (int i = 0; i < 1000; i++) log_line(arg, LUTRA_LOG_INFO, "line %d", i);
    return NULL;
}

static void test_threads(void **state)
{
    struct sink sink = {0};
    struct log log;
    pthread_t thread[3];
    (void)state;
    log_init(&log, keep, &sink, LUTRA_LOG_INFO);
    for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&thread[i], NULL, write_often, &log), 0);
    for (int i = 0; i < 3; i++) pthread_join(thread[i], NULL);
    assert_int_equal(sink.n_line, 3000);
    log_fini(&log);
}

static int fails(struct lutra_error *err)
{
    TRY(LUTRA_OK);
    TRY(lutra_fail_at(err, LUTRA_E_FORMAT, 77, "%s: key '%s' is too long", "a.gguf", "k"));
    return LUTRA_OK;
}

static void test_status(void **state)
{
    struct lutra_error err = {0};
    (void)state;
    assert_int_equal(fails(&err), LUTRA_E_FORMAT);
    assert_int_equal(err.code, LUTRA_E_FORMAT);
    assert_int_equal(err.where, 77);
    assert_string_equal(err.what, "a.gguf: key 'k' is too long");
    assert_int_equal(fails(NULL), LUTRA_E_FORMAT);
    assert_string_equal(lutra_status_text(LUTRA_E_CTX_FULL), "the context is full");
    assert_string_equal(lutra_status_text(-999), "unknown status");
    assert_int_equal(lutra_fail(&err, LUTRA_E_IO, "%1000s", "x"), LUTRA_E_IO);
    assert_int_equal(strlen(err.what), sizeof err.what - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_nobody_listens),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_status),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
