/* The rules of aya_settle() on the operations of the tests' base spec: `get` (bytes, resumed until
 * the end of the file) and `put` (count, resumed). One thread; exits 1 at the first difference.
 */
#include "aya_ops.h"

#include <stdio.h>
#include <stdlib.h>

static char buffer[16];
static aya_op op;

static void
check(int line, aya_verdict verdict, aya_verdict expected, int64_t result)
{
    if (verdict != expected || (expected == AYA_VERDICT_DONE && op.result != result)) {
        printf("line %d: verdict %d and result %lld, not %d and %lld\n", line, (int)verdict,
               (long long)op.result, (int)expected, (long long)result);
        exit(1);
    }
}

#define SETTLE(transfer, verdict, result) \
    check(__LINE__, aya_settle(&op, transfer), AYA_VERDICT_##verdict, result)

static void
read_rules(void)
{
    aya_op_get(&op, NULL, 0, 10, buffer, 16);
    SETTLE(4, MORE, 0);
    SETTLE(6, DONE, 10);

    aya_op_get(&op, NULL, 0, 10, buffer, 16); /* the file ends */
    SETTLE(4, MORE, 0);
    SETTLE(0, DONE, 4);

    aya_op_get(&op, NULL, 0, 0, buffer, 16); /* nothing was asked for */
    SETTLE(0, DONE, 0);

    aya_op_get(&op, NULL, 0, 16, buffer, 16); /* all that was asked for fits */
    SETTLE(16, DONE, 16);

    aya_op_get(&op, NULL, 0, -1, buffer, 4); /* it does not: the buffer grows */
    SETTLE(4, GROW, 0);
    op.buf_size = 8;
    SETTLE(0, DONE, 4);

    aya_op_get(&op, NULL, 0, 8, buffer, 4);
    SETTLE(4, GROW, 0);
    op.buf_size = 16;
    SETTLE(4, DONE, 8);

    aya_op_get(&op, NULL, 0, -1, NULL, 0); /* no room is no end of the file */
    SETTLE(0, GROW, 0);

    aya_op_get(&op, NULL, 0, 10, buffer, 16);
    SETTLE(-EAGAIN, AGAIN, 0);
    SETTLE(-EINTR, AGAIN, 0);
    SETTLE(4, MORE, 0);
    SETTLE(-EIO, DONE, -EIO); /* an error after a part is still the error */
}

static void
write_rules(void)
{
    aya_op_put(&op, NULL, 0, buffer, 10, AYA_PUT_CALM, false);
    SETTLE(9, MORE, 0);
    SETTLE(1, DONE, 10);

    aya_op_put(&op, NULL, 0, buffer, 10, AYA_PUT_CALM, false); /* a transfer of nothing */
    SETTLE(9, MORE, 0);
    SETTLE(0, DONE, -EIO);

    aya_op_put(&op, NULL, 0, buffer, 0, AYA_PUT_CALM, false);
    SETTLE(0, DONE, 0);

    aya_op_put(&op, NULL, 0, buffer, 10, AYA_PUT_CALM, false);
    SETTLE(-EINTR, AGAIN, 0);
    SETTLE(-EAGAIN, DONE, -EAGAIN); /* not in its `retry` */
}

static void
expect_size(int line, size_t size, size_t expected)
{
    if (size != expected) {
        printf("line %d: %zu, not %zu\n", line, size, expected);
        exit(1);
    }
}

static void
room_rules(void)
{
    aya_op_get(&op, NULL, 0, -1, buffer, 16);
    op.done = 6;
    expect_size(__LINE__, aya_op_room(&op), 10);
    expect_size(__LINE__, aya_room(&op, 8, 100), 2);
    expect_size(__LINE__, aya_room(&op, -1, 4), 4);
    expect_size(__LINE__, aya_left(-1, 6, 100), 100);
}

int
main(void)
{
    read_rules();
    write_rules();
    room_rules();
    return 0;
}
