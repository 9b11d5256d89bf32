/* SPDX-License-Identifier: MIT
 *
 * A pass that ends before its work does: cancelled between two messages, or failed in one.  What was sent is waited
 * for, the rest is never sent, no result of it is believed, and the next pass is that of an undisturbed session.
 */
#include "device_fixture.h"

/* Looks over the shoulder of the first session. */
static struct {
    const struct npu_transport_ops *ops;
    struct npu_transport_ops watched;
    lutra_session *s;
    int n_submit, cancel_at, fail_at, n_wait;
} watch;

static int submit(
    struct npu_transport *self, const struct npu_op *op, uint32_t n_op, uint64_t *ticket, struct lutra_error *err)
{
    if (++watch.n_submit == watch.cancel_at) lutra_cancel(watch.s);
    return watch.ops->submit(self, op, n_op, ticket, err);
}

static int wait_for(struct npu_transport *self, uint64_t ticket, uint64_t deadline_us, struct lutra_error *err)
{
    int rc = watch.ops->wait(self, ticket, deadline_us, err);
    return rc == 0 && ++watch.n_wait == watch.fail_at ? lutra_fail(err, LUTRA_E_INTERNAL, "failed") : rc;
}

static void open_watched(struct fixture *f)
{
    struct lutra_runtime_settings rs;
    lutra_runtime_settings_init(&rs, sizeof rs);
    struct lutra_session_settings ss;
    lutra_session_settings_init(&ss, sizeof ss);
    memset(f, 0, sizeof *f);
    rs.device = "npu-sim";
    rs.n_threads = 2;
    ss.n_seq = 2, ss.n_ctx = 128, ss.n_batch = 16;
    OK(lutra_runtime_open(&f->rt, &rs, err));
    OK(lutra_model_open(&f->model, f->rt, MODEL, NULL, err));
    OK(lutra_session_open(&f->s, f->model, &ss, err));
    struct npu_transport *link = npu_of(f)->window[0].link;
    memset(&watch, 0, sizeof watch);
    watch.ops = link->ops, watch.watched = *link->ops, watch.s = f->s;
    watch.watched.submit = submit, watch.watched.wait = wait_for;
    link->ops = &watch.watched;
}

/* Eight tokens, then four that end early by `fail`, then the same four again: as if nothing had happened. */
static void check(int *at, int nth, int rc)
{
    struct fixture f;
    float want[N_VOCAB];
    int32_t a, b;
    struct lutra_error why;
    open_watched(&f);
    OK(lutra_seq_open(f.s, 0, &a, err));
    OK(lutra_seq_open(f.s, 0, &b, err));
    feed(f.s, a, 0, 8, 0);
    memcpy(want, feed(f.s, a, 8, 4, 0), sizeof want);
    int all = watch.n_submit / 2;
    assert_true(all >= 4);
    feed(f.s, b, 0, 8, 0);
    watch.n_submit = watch.n_wait = 0;
    *at = nth;
    assert_int_equal(feed_rows(f.s, b, 8, 4, 0, &why), rc);
    assert_true(watch.n_submit < all);
    *at = 0;
    assert_int_equal(lutra_seq_length(f.s, b), 8);
    assert_memory_equal(feed(f.s, b, 8, 4, 0), want, sizeof want);
    shut(&f);
}

static void cancelled_between_messages(void **state)
{
    (void)state;
    check(&watch.cancel_at, 1, LUTRA_E_CANCELLED);
    check(&watch.cancel_at, 3, LUTRA_E_CANCELLED);
}

static void failed_in_a_message(void **state)
{
    (void)state;
    check(&watch.fail_at, 1, LUTRA_E_INTERNAL);
    check(&watch.fail_at, 2, LUTRA_E_INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cancelled_between_messages),
        cmocka_unit_test(failed_in_a_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
