/* What follows from a backward scan, in products over the rows of all steps: the gradients of
 * low-rank factors, of features and of what turned those into the drive.
 *
 * The factors' come from what the scans kept, z = R x forwards and dz = L^T dy backwards:
 * dL = sum dy z^T, dR = sum dz x^T and dD = sum dy x, a strip of units at a time. Each number is
 * summed by one thread in one order, so that the number of threads changes nothing.
 */

#define STRIP (4 * LANES)
/* Rows that are gathered at once. */
#define GATHER 128

typedef struct {
    plan p;
    const factor_gradients *to;
} NAME(sums);
#define sums NAME(sums)

#define OUTER(rows)                                                                              \
    case rows:                                                                                   \
        NAME(tile)(rows, 2, a, 1, a_step, b, LANES, STRIP, depth, c, STRIP, 1);                  \
        break;

/* C[count][STRIP] += A^T B for A [depth][a_step] and B [depth][STRIP]. */
TARGET static void NAME(outer)(int64_t count, const REAL *a, int64_t a_step, const REAL *from,
                               int64_t depth, REAL *to) {
    for (int64_t j = 0; j < count; j += MOST_ROWS) {
        int64_t rows = count - j < MOST_ROWS ? count - j : MOST_ROWS;
        for (int half = 0; half < STRIP; half += 2 * LANES) {
            const REAL *b = from + half;
            REAL *c = to + j * STRIP + half;
            switch (rows) {
                OUTER(1) OUTER(2) OUTER(3) OUTER(4)
#if MOST_ROWS > 4
                OUTER(5) OUTER(6)
#endif
#if MOST_ROWS > 6
                OUTER(7) OUTER(8)
#endif
            }
        }
        a += MOST_ROWS;
    }
}
#undef OUTER

/* Units [unit, unit + STRIP) of a row, times those of two others where there are any. */
INLINE void NAME(gather)(const REAL *from, const REAL *mask, const REAL *reset, int64_t n,
                         int64_t count, REAL *to) {
    UNROLL for (int j = 0; j < STRIP; j += LANES) {
        if (j >= count) continue;
        __builtin_prefetch(from + 8 * n + j);
        vec x = NAME(load_some)(from + j, count - j);
        if (mask) x *= NAME(load_some)(mask + j, count - j);
        if (reset) x *= NAME(load_some)(reset + j, count - j);
        NAME(store)(to + j, x);
    }
}

/* x, what a gate's matrix read in these rows: the states before, masked, and reset if that comes
 * before the matrix. */
TARGET static void NAME(gather_inputs)(const plan *p, int gate, int64_t unit, int64_t row,
                                       int64_t rows, REAL *to) {
    const scan_call *call = p->call;
    const REAL *initial = call->initial, *states = call->states;
    const REAL *masks = call->masks, *resets = call->kept;
    int64_t n = p->n;
    if (call->mask_count > 1) masks += gate * p->batch * n;
    if (call->cell != GRU_BEFORE || gate < 2) resets = NULL;
    for (int64_t k = row; k < row + rows; k++, to += STRIP) {
        const REAL *from = k < p->batch ? initial + k * n : states + (k - p->batch) * n;
        const REAL *mask = masks ? masks + k % p->batch * n + unit : NULL;
        const REAL *reset = resets ? resets + k * n + unit : NULL;
        NAME(gather)(from + unit, mask, reset, n, n - unit, to);
    }
}

/* dy, the gradients of what a gate's matrix gave: those of the drive, behind a reset that comes
 * after the matrix. */
TARGET static void NAME(gather_grads)(const plan *p, int gate, int64_t unit, int64_t row,
                                      int64_t rows, REAL *to) {
    const scan_call *call = p->call;
    int64_t n = p->n, slot = p->steps * p->batch * n;
    const REAL *from = (const REAL *)call->grad_drive + gate * slot + row * n + unit;
    const REAL *reset = (const REAL *)call->kept + row * n + unit;
    if (call->cell != GRU_AFTER || gate < 2) reset = NULL;
    for (int64_t k = 0; k < rows; k++, to += STRIP)
        NAME(gather)(from + k * n, NULL, reset ? reset + k * n : NULL, n, n - unit, to);
}

INLINE void NAME(put_strip)(REAL *to, int64_t count, const vec *sum) {
    UNROLL for (int j = 0; j < STRIP / LANES; j++)
        if (j * LANES < count) NAME(store_some)(to + j * LANES, sum[j], count - j * LANES);
}

/* One gate's factors on one strip of units. */
TARGET static void NAME(strip)(const sums *s, const group *of, int gate, int64_t unit, REAL *room) {
    const plan *p = &s->p;
    const factor_gradients *found = s->to;
    int tied = p->call->tied != 0;
    int64_t n = p->n, d = p->d, total = p->steps * p->batch;
    int64_t count = n - unit < STRIP ? n - unit : STRIP;
    int64_t at = of->summary + (tied ? 0 : (gate - of->first) * d), each = p->summary_count;
    const REAL *z = (const REAL *)found->ahead + at, *dz = (const REAL *)p->call->summaries + at;
    REAL *x = room, *dy = x + GATHER * STRIP;
    REAL *to_left = dy + GATHER * STRIP, *to_right = to_left + d * STRIP;
    /* Gates that share R and what it reads share dz too, and the first of them uses it. */
    int right = !tied || gate == of->first;
    memset(to_left, 0, (size_t)(2 * d * STRIP) * sizeof(REAL));
    vec diagonal[STRIP / LANES] = {{0}}, inner[STRIP / LANES] = {{0}};
    for (int64_t row = 0; row < total; row += GATHER, z += GATHER * each, dz += GATHER * each) {
        int64_t rows = total - row < GATHER ? total - row : GATHER;
        NAME(gather_grads)(p, gate, unit, row, rows, dy);
        NAME(outer)(d, z, each, dy, rows, to_left);
        if (found->grad_inner && gate == 2) {
            vec part[STRIP / LANES] = {{0}};
            for (int64_t k = 0; k < rows * STRIP; k += STRIP)
                UNROLL for (int j = 0; j < STRIP / LANES; j++)
                    part[j] += NAME(load)(dy + k + j * LANES);
            UNROLL for (int j = 0; j < STRIP / LANES; j++) inner[j] += part[j];
        }
        if (!right && !found->grad_diagonal) continue;
        NAME(gather_inputs)(p, gate, unit, row, rows, x);
        if (right) NAME(outer)(d, dz, each, x, rows, to_right);
        if (!found->grad_diagonal) continue;
        vec part[STRIP / LANES] = {{0}};
        for (int64_t k = 0; k < rows * STRIP; k += STRIP)
            UNROLL for (int j = 0; j < STRIP / LANES; j++)
                part[j] += NAME(load)(x + k + j * LANES) * NAME(load)(dy + k + j * LANES);
        UNROLL for (int j = 0; j < STRIP / LANES; j++) diagonal[j] += part[j];
    }
    REAL *left = (REAL *)found->grad_expand + (gate * n + unit) * d;
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < d; j++) left[i * d + j] = to_left[j * STRIP + i];
    REAL *own = (REAL *)found->grad_project + (tied ? 0 : gate * d * n) + unit;
    int more = tied && gate > 0; /* a further group's share of what is tied */
    for (int64_t j = 0; right && j < d; j++)
        for (int64_t i = 0; i < count; i++)
            own[j * n + i] = to_right[j * STRIP + i] + (more ? own[j * n + i] : 0);
    if (found->grad_diagonal)
        NAME(put_strip)((REAL *)found->grad_diagonal + gate * n + unit, count, diagonal);
    if (found->grad_inner && gate == 2) NAME(put_strip)((REAL *)found->grad_inner + unit, count, inner);
}

/* A share is one strip of one gate or, where gates are tied, of all of them. */
TARGET static int NAME(strips)(const void *prepared, int64_t first, int64_t stop) {
    const sums *s = prepared;
    const plan *p = &s->p;
    size_t bytes = (size_t)(2 * (GATHER + p->d) * STRIP) * sizeof(REAL);
    REAL *room = aligned_alloc(64, bytes);
    if (!room) return 1;
    memset(room, 0, bytes);
    int64_t apart = p->call->tied ? 1 : p->gates;
    for (; first < stop; first++)
        for (int i = 0; i < p->group_count; i++)
            for (int g = p->groups[i].first; g < p->groups[i].first + p->groups[i].count; g++)
                if (apart == 1 || g == first % apart)
                    NAME(strip)(s, &p->groups[i], g, first / apart * STRIP, room);
    free(room);
    return 0;
}

static int NAME(run_factors)(const scan_call *call, const factor_gradients *to) {
    sums s = {.to = to};
    NAME(measure)(&s.p, call, 1);
    int64_t strips = (s.p.n + STRIP - 1) / STRIP * (call->tied ? 1 : s.p.gates);
    int64_t work = 2 * s.p.steps * s.p.batch * s.p.n * s.p.d * s.p.gates;
    return in_threads(NAME(strips), &s, strips, call->threads, work / THREAD_WORK);
}

/* Features x drove with W x + b: from dy, now the gradient of the drive, dW = sum dy x^T and
 * db = sum dy, again a strip of units at a time. */

typedef struct {
    const scan_call *call;
    REAL *weight, *bias;   /* of the matrices */
    REAL *features;        /* of x */
    packed matrices[4];    /* W, for x alone */
} NAME(driven);
#define driven NAME(driven)

TARGET static void NAME(input_strip)(const driven *s, int64_t gate, int64_t unit, REAL *room) {
    const scan_call *call = s->call;
    int64_t n = call->units, m = call->width, total = call->steps * call->batch;
    int64_t count = n - unit < STRIP ? n - unit : STRIP;
    const REAL *from = (const REAL *)call->grad_drive + gate * total * n + unit;
    const REAL *x = call->input;
    REAL *dy = room, *sum = dy + GATHER * STRIP;
    memset(sum, 0, (size_t)(m * STRIP) * sizeof(REAL));
    vec bias[STRIP / LANES] = {{0}};
    for (int64_t row = 0; row < total; row += GATHER) {
        int64_t rows = total - row < GATHER ? total - row : GATHER;
        vec part[STRIP / LANES] = {{0}};
        for (int64_t k = 0; k < rows; k++) {
            NAME(gather)(from + (row + k) * n, NULL, NULL, n, n - unit, dy + k * STRIP);
            UNROLL for (int j = 0; j < STRIP / LANES; j++)
                part[j] += NAME(load)(dy + k * STRIP + j * LANES);
        }
        UNROLL for (int j = 0; j < STRIP / LANES; j++) bias[j] += part[j];
        NAME(outer)(m, x + row * m, m, dy, rows, sum);
    }
    REAL *weight = s->weight + (gate * n + unit) * m;
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < m; j++) weight[i * m + j] = sum[j * STRIP + i];
    if (s->bias) NAME(put_strip)(s->bias + gate * n + unit, count, bias);
}

TARGET static int NAME(input_strips)(const void *prepared, int64_t first, int64_t stop) {
    const driven *s = prepared;
    int64_t gates = gates_of(s->call);
    size_t bytes = (size_t)((GATHER + s->call->width) * STRIP) * sizeof(REAL);
    REAL *room = aligned_alloc(64, bytes);
    if (!room) return 1;
    memset(room, 0, bytes);
    for (; first < stop; first++)
        NAME(input_strip)(s, first % gates, first / gates * STRIP, room);
    free(room);
    return 0;
}

static int NAME(run_inputs)(const scan_call *call, void *grad_weight, void *grad_bias) {
    driven s = {.call = call, .weight = grad_weight, .bias = grad_bias};
    int64_t strips = (call->units + STRIP - 1) / STRIP * gates_of(call);
    int64_t work = strips * STRIP * call->steps * call->batch * (call->width + 1);
    return in_threads(NAME(input_strips), &s, strips, call->threads, work / THREAD_WORK);
}

/* dx = sum W^T dy over the gates, for rows [first, stop), some at a time so that a panel of W stays
 * in the nearest cache. */
TARGET static int NAME(feature_rows)(const void *prepared, int64_t first, int64_t stop) {
    const driven *s = prepared;
    const scan_call *call = s->call;
    int64_t n = call->units, m = call->width, slot = call->steps * call->batch * n;
    int64_t wide = NAME(whole)(m);
    REAL *room = aligned_alloc(64, (size_t)(GATHER * wide) * sizeof(REAL));
    if (!room) return 1;
    for (; first < stop; first += GATHER) {
        int64_t rows = stop - first < GATHER ? stop - first : GATHER;
        for (int64_t g = 0; g < gates_of(call); g++)
            NAME(multiply)(rows, (const REAL *)call->grad_drive + g * slot + first * n, n,
                           &s->matrices[g], 0, wide / LANES, room, wide, g > 0);
        for (int64_t r = 0; r < rows; r++)
            memcpy(s->features + (first + r) * m, room + r * wide, (size_t)m * sizeof(REAL));
    }
    free(room);
    return 0;
}

TARGET static int NAME(run_features)(const scan_call *call, void *grad_input) {
    driven s = {.call = call, .features = grad_input};
    int64_t gates = gates_of(call), n = call->units, m = call->width;
    int64_t total = call->steps * call->batch;
    size_t bytes = ((size_t)(gates * n * NAME(whole)(m)) * sizeof(REAL) + 63) / 64 * 64;
    REAL *memory = aligned_alloc(64, bytes), *room = memory;
    if (!memory) return 1;
    for (int64_t g = 0; g < gates; g++)
        s.matrices[g] = NAME(pack)(&room, (const REAL *)call->weight + g * n * m, n, m, m, 1);
    int64_t most = gates * total * n * m / THREAD_WORK;
    int failed = in_threads(NAME(feature_rows), &s, total, call->threads, most);
    free(memory);
    return failed;
}

#undef STRIP
#undef GATHER
#undef sums
#undef driven
