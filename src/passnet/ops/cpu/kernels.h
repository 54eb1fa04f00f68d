/* Everything for one element type and one instruction set; see scan.c for who includes it. */

#include "lanes.h"
#include "products.h"
#include "plan.h"
#include "maps.h"
#include "gru.h"
#include "lstm.h"
#include "gradients.h"

TARGET static int NAME(run_rows)(const void *prepared, int64_t first, int64_t stop) {
    const plan *p = prepared;
    if (first >= stop) return 0;
    int64_t blocks = (stop - first + BLOCK - 1) / BLOCK;
    int64_t size = (stop - first + blocks - 1) / blocks;
    block k = {0};
    if (NAME(take_scratch)(&k, p, size)) return 1;
    for (; first < stop; first += size) {
        k.first = first;
        k.rows = stop - first < size ? stop - first : size;
        if (p->call->cell == LSTM)
            (p->backward ? NAME(lstm_backward) : NAME(lstm_forward))(p, &k);
        else
            (p->backward ? NAME(gru_backward) : NAME(gru_forward))(p, &k);
    }
    free(k.memory);
    return 0;
}

/* Multiplications, about. */
static int64_t NAME(work)(const plan *p) {
    int64_t products = (p->d ? 2 * p->d : p->n) + (p->call->input ? p->call->width : 0);
    return p->steps * p->batch * p->n * p->gates * (products + 16);
}

static int NAME(run)(const scan_call *call, int backward) {
    plan p;
    if (NAME(prepare)(&p, call, backward)) return 1;
    int64_t slot = p.steps * p.batch * p.n * (int64_t)sizeof(REAL);
    if (backward) {
        expect_fresh(call->grad_drive, p.gates * slot);
    } else {
        expect_fresh(call->states, slot);
        expect_fresh(call->cells, slot);
        expect_fresh(call->kept, (call->cell == LSTM ? 5 : call->cell == GRU_AFTER ? 4 : 3) * slot);
    }
    int64_t most = NAME(work)(&p) / THREAD_WORK;
    int failed = in_threads(NAME(run_rows), &p, p.batch, call->threads, most);
    free(p.memory);
    return failed;
}

#include "step.h"

#undef vec
#undef bits
#undef packed
#undef group
#undef plan
#undef block
#undef EACH_VECTOR
#undef SUM_LENGTH
#undef AHEAD_ONCE
#undef BLOCK
#undef WIDTH
#undef MANTISSA
#undef EXPONENT_BIAS
#undef SIGN_BIT
#undef ROUNDER
#undef LN2_HIGH
#undef LN2_LOW
#undef LOWEST_EXPONENT
#undef REAL
#undef BITS
#undef LANES
#undef IS_DOUBLE
#undef NAME
#undef LOAD_SOME
#undef STORE_SOME
