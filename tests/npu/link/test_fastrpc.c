/* SPDX-License-Identifier: MIT
 *
 * The transport to a phone's NPU against a library of our own (fake_cdsprpc.c): what it is asked, in what order it is
 * left, and each way to fail.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>

#include "fake.h"
#include "link.h"

static const struct npu_transport_settings small = {.memory_bytes = 1 << 20};

/* The library stays loaded while the test looks at it. */
static struct fake *begin(void)
{
    setenv("LUTRA_CDSPRPC", NPU_FAKE, 1);
    void *library = dlopen(NPU_FAKE, RTLD_NOW);
    struct fake *f = library ? dlsym(library, "lutra_fake") : NULL;
    if (!f) fail_msg("%s", dlerror());
    memset(f, 0, sizeof *f);
    return f;
}

static void nothing_left(const struct fake *f)
{
    assert_int_equal(f->n_memory, 0);
    assert_int_equal(f->n_mapped, 0);
    assert_int_equal(f->n_open, 0);
}

static void work_comes_back(void **state)
{
    struct lutra_error err;
    struct work p, l;
    struct fake *f = begin();
    (void)state;
    struct npu_transport *phone = open_by(npu_fastrpc_open, &small, &err);
    if (!phone) fail_msg("%s", err.what);
    struct npu_transport *local =
        open_by(npu_local_open, &(struct npu_transport_settings){.tcm_bytes = 1 << 20, .memory_bytes = 1 << 20}, &err);
    assert_int_equal(phone->machine.tcm_start, 0x12340000); /* as the NPU told it */
    for (uint64_t seed = 0; seed < 3; seed++) {
        put_work(&p, phone, seed), put_work(&l, local, seed);
        if (run_work(phone, &p, CLOCK_NEVER_US, &err)) fail_msg("%s", err.what);
        assert_int_equal(run_work(local, &l, CLOCK_NEVER_US, &err), 0);
        assert_true(same_results(phone, &p, local, &l));
    }
    assert_string_equal(f->uri, "file:///liblutra_npu.so?lutra_npu_skel_handle_invoke&_modver=1.0&_dom=cdsp");
    assert_int_equal(f->unsigned_domain, FASTRPC_CDSP);
    assert_int_equal(f->latency_us, 100);
    assert_int_equal(f->serve.power.most_corner, NPU_CORNER_TURBO_L3);
    assert_int_equal(f->serve.power.tiles, 1);
    npu_transport_close(&phone), npu_transport_close(&local);
    assert_int_equal(f->n_killed, 0); /* it ended when asked */
    nothing_left(f);
}

static void sessions_are_reserved(void **state)
{
    struct lutra_error err;
    struct work a, b;
    struct fake *f = begin();
    (void)state;
    struct npu_transport_settings second = small;
    second.session = 1;
    struct npu_transport *npu = open_by(npu_fastrpc_open, &second, &err);
    if (!npu) fail_msg("%s", err.what);
    assert_int_equal(f->n_sessions, 1);
    assert_int_equal(f->unsigned_domain, 7);
    assert_non_null(strstr(f->uri, "&_dom=cdsp&_session=1"));
    put_work(&a, npu, 1), put_work(&b, npu, 1);
    assert_int_equal(run_work(npu, &a, CLOCK_NEVER_US, &err), 0);
    npu_transport_close(&npu);
    nothing_left(f);
    f->session_error = 0x73;
    assert_null(open_by(npu_fastrpc_open, &second, &err));
    assert_int_equal(err.code, LUTRA_E_UNSUPPORTED);
    assert_non_null(strstr(err.what, "0x73"));
    nothing_left(f);
}

static void an_npu_that_ends_is_lost(void **state)
{
    struct lutra_error err;
    struct work w;
    struct fake *f = begin();
    (void)state;
    f->die_after = 8; /* in the second submission */
    struct npu_transport *npu = open_by(npu_fastrpc_open, &small, &err);
    assert_non_null(npu);
    put_work(&w, npu, 1);
    assert_int_equal(run_work(npu, &w, CLOCK_NEVER_US, &err), 0);
    int rc = run_work(npu, &w, CLOCK_NEVER_US, &err);
    if (rc == LUTRA_E_INTERNAL) rc = run_work(npu, &w, CLOCK_NEVER_US, &err); /* its last answer came first */
    assert_int_equal(rc, LUTRA_E_DEVICE_LOST);
    assert_non_null(strstr(err.what, "0x4e"));
    assert_true(npu->lost);
    npu_transport_close(&npu);
    nothing_left(f);
}

static void an_npu_that_hangs_is_late_then_killed(void **state)
{
    struct lutra_error err;
    struct work w;
    struct fake *f = begin();
    (void)state;
    f->hang = 1;
    struct npu_transport *npu = open_by(npu_fastrpc_open, &small, &err);
    assert_non_null(npu);
    put_work(&w, npu, 1);
    assert_int_equal(run_work(npu, &w, clock_now_us(clock_real()) + 20000, &err), LUTRA_E_DEADLINE);
    npu_transport_close(&npu);
    assert_int_equal(f->n_killed, 1);
    nothing_left(f);
}

static void expect(struct fake *f, int code, const char *text)
{
    struct lutra_error err;
    struct npu_transport *npu;
    assert_int_equal(open_as_told(npu_fastrpc_open, &small, &npu, &err), code);
    assert_null(npu);
    if (!strstr(err.what, text)) fail_msg("'%s' does not say '%s'", err.what, text);
    if (f) nothing_left(f);
}

static void what_fails_is_told(void **state)
{
    struct fake *f = begin();
    (void)state;
    f->open_error = 0x80000406;
    expect(f, LUTRA_E_UNSUPPORTED, "liblutra_npu.so, error 0x80000406");
    f->open_error = 0, f->alloc_fails = 1;
    expect(f, LUTRA_E_NO_MEMORY, "no shared memory");
    f->alloc_fails = 0, f->map_error = 2;
    expect(f, LUTRA_E_NO_MEMORY, "no room for a window");
    f->map_error = 0, f->unsigned_error = 5;
    expect(f, LUTRA_E_UNSUPPORTED, "unsigned programs");
    setenv("LUTRA_CDSPRPC", "libm.so.6", 1);
    expect(NULL, LUTRA_E_UNSUPPORTED, "has no rpcmem_alloc");
    unsetenv("LUTRA_CDSPRPC");
    if (!dlopen("libcdsprpc.so", RTLD_NOW)) expect(NULL, LUTRA_E_UNSUPPORTED, "there is no NPU here");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_comes_back),
        cmocka_unit_test(sessions_are_reserved),
        cmocka_unit_test(an_npu_that_ends_is_lost),
        cmocka_unit_test(an_npu_that_hangs_is_late_then_killed),
        cmocka_unit_test(what_fails_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
