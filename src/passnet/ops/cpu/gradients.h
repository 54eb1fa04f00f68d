/* Gradients of low-rank factors: four products over the rows of all steps, and the diagonal's.
 *
 * First the rows are shared out among threads for their summaries z = R x and dz = L^T dy, then
 * the units for dL = sum dy z^T, dR = sum dz x^T and dD = sum dy x. Each number is summed by one
 * thread in one order, so that the number of threads changes nothing.
 */

#define STRIP (4 * LANES)
/* Rows that are gathered at once. */
#define GATHER 128

typedef struct {
    const gradient_call *call;
    packed project[4], expand[4];
    REAL *z, *dz;
    int64_t z_row, dz_row;
    REAL *memory;
} NAME(sums);
#define sums NAME(sums)

INLINE int NAME(one_input)(const gradient_call *of) { return of->input_count == 1; }

/* Where gate g's summary stands in a row of z, and its gradient in a row of dz. */
INLINE int64_t NAME(z_at)(const gradient_call *of, int64_t g) {
    return of->tied && NAME(one_input)(of) ? 0 : g * of->rank;
}

TARGET static int NAME(summaries)(const void *prepared, int64_t first, int64_t stop) {
    const sums *s = prepared;
    const gradient_call *of = s->call;
    int64_t n = of->units, slot = of->rows * n;
    const REAL *inputs = of->inputs, *grads = of->grads;
    for (; first < stop; first += 16) {
        int64_t rows = stop - first < 16 ? stop - first : 16;
        for (int64_t i = 0; i < of->input_count; i++)
            NAME(multiply)(rows, inputs + i * slot + first * n, n, &s->project[i], 0,
                           s->project[i].panels, s->z + first * s->z_row + i * of->rank, s->z_row,
                           0);
        for (int64_t g = 0; g < of->gates; g++) {
            int64_t at = NAME(z_at)(of, g);
            NAME(multiply)(rows, grads + g * slot + first * n, n, &s->expand[g], 0,
                           s->expand[g].panels, s->dz + first * s->dz_row + at, s->dz_row,
                           g > 0 && !at);
        }
    }
    return 0;
}

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

/* Units [unit, unit + STRIP) of `rows` rows, side by side. */
TARGET static void NAME(gather)(const REAL *from, int64_t n, int64_t rows, int64_t count, REAL *to) {
    for (int64_t k = 0; k < rows; k++, from += n, to += STRIP) {
        UNROLL for (int j = 0; j < STRIP; j += LANES) {
            __builtin_prefetch(from + 8 * n + j);
            if (j < count) NAME(store)(to + j, NAME(load_some)(from + j, count - j));
        }
    }
}

/* One gate's factors on one strip of units. */
TARGET static void NAME(strip)(const sums *s, int64_t g, int64_t unit, REAL *room) {
    const gradient_call *of = s->call;
    int64_t n = of->units, d = of->rank, slot = of->rows * n;
    int64_t count = n - unit < STRIP ? n - unit : STRIP;
    int64_t input = NAME(one_input)(of) ? 0 : g;
    const REAL *inputs = (const REAL *)of->inputs + input * slot + unit;
    const REAL *grads = (const REAL *)of->grads + g * slot + unit;
    REAL *x = room, *dy = x + GATHER * STRIP;
    REAL *to_left = dy + GATHER * STRIP, *to_right = to_left + d * STRIP;
    /* Gates that share R and its input share dz too, and the first of them uses it. */
    int right = !(of->tied && NAME(one_input)(of) && g > 0);
    memset(to_left, 0, (size_t)(2 * d * STRIP) * sizeof(REAL));
    vec diagonal[STRIP / LANES] = {{0}};
    for (int64_t row = 0; row < of->rows; row += GATHER) {
        int64_t rows = of->rows - row < GATHER ? of->rows - row : GATHER;
        NAME(gather)(inputs + row * n, n, rows, count, x);
        NAME(gather)(grads + row * n, n, rows, count, dy);
        if (of->grad_diagonal) {
            vec part[STRIP / LANES] = {{0}};
            for (int64_t k = 0; k < rows * STRIP; k += STRIP)
                UNROLL for (int j = 0; j < STRIP / LANES; j++)
                    part[j] += NAME(load)(x + k + j * LANES) * NAME(load)(dy + k + j * LANES);
            UNROLL for (int j = 0; j < STRIP / LANES; j++) diagonal[j] += part[j];
        }
        int64_t at = NAME(z_at)(of, g);
        NAME(outer)(d, s->z + row * s->z_row + at, s->z_row, dy, rows, to_left);
        if (right) NAME(outer)(d, s->dz + row * s->dz_row + at, s->dz_row, x, rows, to_right);
    }
    REAL *left = (REAL *)of->grad_expand + (g * n + unit) * d;
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j < d; j++) left[i * d + j] = to_left[j * STRIP + i];
    REAL *own = (REAL *)of->grad_project + (of->tied ? 0 : g * d * n) + unit;
    for (int64_t j = 0; right && j < d; j++)
        for (int64_t i = 0; i < count; i++)
            own[j * n + i] = to_right[j * STRIP + i] + (of->tied && g > 0 ? own[j * n + i] : 0);
    if (of->grad_diagonal) {
        REAL *to = (REAL *)of->grad_diagonal + g * n + unit;
        UNROLL for (int j = 0; j < STRIP / LANES; j++)
            if (j * LANES < count) NAME(store_some)(to + j * LANES, diagonal[j], count - j * LANES);
    }
}

TARGET static int NAME(strips)(const void *prepared, int64_t first, int64_t stop) {
    const sums *s = prepared;
    size_t bytes = (size_t)(2 * (GATHER + s->call->rank) * STRIP) * sizeof(REAL);
    REAL *room = aligned_alloc(64, bytes);
    if (!room) return 1;
    memset(room, 0, bytes);
    for (; first < stop; first++)
        for (int64_t g = 0; g < s->call->gates; g++) NAME(strip)(s, g, first * STRIP, room);
    free(room);
    return 0;
}

TARGET static int NAME(factor_gradients)(const gradient_call *of) {
    sums s = {.call = of};
    int64_t n = of->units, d = of->rank, gates = of->gates;
    int shared = of->tied && NAME(one_input)(of);
    s.z_row = NAME(whole)(shared ? d : gates * d) + LANES;
    s.dz_row = s.z_row;
    int64_t factors = gates * n * NAME(whole)(d);
    int64_t numbers = 2 * factors + 2 * of->rows * s.z_row;
    s.memory = aligned_alloc(64, ((size_t)numbers * sizeof(REAL) + 63) / 64 * 64);
    if (!s.memory) return 1;
    REAL *room = s.memory;
    int64_t width = NAME(one_input)(of) && !of->tied ? gates * d : d;
    for (int64_t i = 0; i < of->input_count; i++)
        s.project[i] = of->tied && i ? s.project[0]
                                     : NAME(pack)(&room, (const REAL *)of->project + i * d * n, n,
                                                  width, 1, n);
    for (int64_t g = 0; g < gates; g++)
        s.expand[g] = NAME(pack)(&room, (const REAL *)of->expand + g * n * d, n, d, d, 1);
    s.z = s.memory + 2 * factors;
    s.dz = s.z + of->rows * s.z_row;
    int64_t work = of->rows * n * d * gates;
    int failed = in_threads(NAME(summaries), &s, of->rows, of->threads, 2 * work);
    int64_t count = (n + STRIP - 1) / STRIP;
    if (!failed) failed = in_threads(NAME(strips), &s, count, of->threads, 2 * work);
    free(s.memory);
    return failed;
}

#undef STRIP
#undef GATHER
#undef sums
