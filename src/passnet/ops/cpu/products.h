/* Small matrix products C = A B for a block of rows, with B packed into panels of LANES columns.
 *
 * Every number of C is summed over the depth in one fixed order, whatever the number of rows: a
 * sequence's result does not depend on its neighbours or on the number of threads.
 */

/* A sum this long is closed and added to the total, which bounds its rounding error. */
#define SUM_LENGTH 128

typedef struct {
    const REAL *numbers; /* [panels][depth][LANES], zeros beyond the last column */
    int64_t depth, panels;
} NAME(packed);
#define packed NAME(packed)

INLINE int64_t NAME(panels_for)(int64_t columns) { return (columns + LANES - 1) / LANES; }

/* B[k][j] = from[k * by_row + j * by_column]. */
TARGET static packed NAME(pack)(REAL **room, const REAL *from, int64_t depth, int64_t columns,
                                int64_t by_row, int64_t by_column) {
    REAL *to = *room;
    packed made = {to, depth, NAME(panels_for)(columns)};
    for (int64_t first = 0; first < columns; first += LANES) {
        int64_t count = columns - first < LANES ? columns - first : LANES;
        const REAL *source = from + first * by_column;
        for (int64_t k = 0; k < depth; k++, source += by_row, to += LANES) {
            for (int64_t j = 0; j < count; j++) to[j] = source[j * by_column];
            for (int64_t j = count; j < LANES; j++) to[j] = 0;
        }
    }
    *room = to;
    return made;
}

/* A[r][k] = a[r * a_row + k * a_step]; B[k] = b[k * b_step ...] in panels b_panel apart. */
INLINE void NAME(tile)(const int rows, const int panels, const REAL *a, int64_t a_row,
                       int64_t a_step, const REAL *b, int64_t b_panel, int64_t b_step,
                       int64_t depth, REAL *c, int64_t c_row, int add) {
    for (int64_t start = 0; start < depth; start += SUM_LENGTH) {
        int64_t stop = depth - start < SUM_LENGTH ? depth : start + SUM_LENGTH;
        vec sum[MOST_ROWS][4];
        UNROLL for (int r = 0; r < rows; r++)
            UNROLL for (int p = 0; p < panels; p++) sum[r][p] = (vec){0};
        for (int64_t k = start; k < stop; k++) {
            vec line[4];
            UNROLL for (int p = 0; p < panels; p++)
                line[p] = NAME(load)(b + p * b_panel + k * b_step);
            UNROLL for (int r = 0; r < rows; r++) {
                vec x = NAME(splat)(a[r * a_row + k * a_step]);
                UNROLL for (int p = 0; p < panels; p++) sum[r][p] += x * line[p];
            }
        }
        UNROLL for (int r = 0; r < rows; r++)
            UNROLL for (int p = 0; p < panels; p++) {
                REAL *to = c + r * c_row + p * LANES;
                NAME(store)(to, add ? NAME(load)(to) + sum[r][p] : sum[r][p]);
            }
        add = 1;
    }
}

#define TILE(rows, panels)                                                                       \
    NAME(tile)(rows, panels, a, a_row, 1, b, b_panel, LANES, depth, c, c_row, add);              \
    return

/* One to three rows take several panels at once: a sum needs others beside it to hide the latency
 * of its additions. */
TARGET static void NAME(few_rows)(int64_t rows, int64_t panels, const REAL *a, int64_t a_row,
                                  const REAL *b, int64_t b_panel, int64_t depth, REAL *c,
                                  int64_t c_row, int add) {
    switch (rows * 8 + panels) {
        case 9: TILE(1, 1);
        case 10: TILE(1, 2);
        case 11: TILE(1, 3);
        case 12: TILE(1, 4);
        case 17: TILE(2, 1);
        case 18: TILE(2, 2);
        case 19: TILE(2, 3);
        case 20: TILE(2, 4);
        case 25: TILE(3, 1);
        default: TILE(3, 2);
    }
}

TARGET static void NAME(more_rows)(int64_t rows, int64_t panels, const REAL *a, int64_t a_row,
                                   const REAL *b, int64_t b_panel, int64_t depth, REAL *c,
                                   int64_t c_row, int add) {
    switch (rows * 4 + panels) {
        case 17: TILE(4, 1);
        case 18: TILE(4, 2);
#if MOST_ROWS > 4
        case 21: TILE(5, 1);
        case 22: TILE(5, 2);
        case 25: TILE(6, 1);
        case 26: TILE(6, 2);
#endif
#if MOST_ROWS > 6
        case 29: TILE(7, 1);
        case 30: TILE(7, 2);
        case 33: TILE(8, 1);
        default: TILE(8, 2);
#endif
    }
}
#undef TILE

/* C = A B or C += A B for panels [first, first + panels) of B. */
TARGET static void NAME(multiply)(int64_t rows, const REAL *a, int64_t a_row, const packed *with,
                                  int64_t first, int64_t panels, REAL *c, int64_t c_row, int add) {
    int64_t b_panel = with->depth * LANES;
    int64_t groups = (rows + MOST_ROWS - 1) / MOST_ROWS;
    int64_t largest = (rows + groups - 1) / groups;
    int64_t at_once = largest < 3 ? 4 : 2;
    for (int64_t p = 0; p < panels; p += at_once) {
        int64_t width = panels - p < at_once ? panels - p : at_once;
        const REAL *b = with->numbers + (first + p) * b_panel;
        for (int64_t r = 0; r < rows; r += largest) {
            int64_t height = rows - r < largest ? rows - r : largest;
            (height < 4 ? NAME(few_rows) : NAME(more_rows))(
                height, width, a + r * a_row, a_row, b, b_panel, with->depth,
                c + r * c_row + p * LANES, c_row, add);
        }
    }
}

/* A weight that is read once a step is asked for early, and not to stay in the cache. */
#define AHEAD_ONCE 256

/* sum[q], lane by lane, of weight[q] . x for consecutive rows of the weight. */
INLINE void NAME(unfinished_dots)(const int rows, const REAL *x, const REAL *weight, int64_t depth,
                                  vec *sum) {
    int64_t whole = depth / LANES * LANES, rest = depth - whole;
    UNROLL for (int q = 0; q < rows; q++) sum[q] = (vec){0};
    for (int64_t k = 0; k < whole; k += LANES) {
        vec part = NAME(load)(x + k);
        UNROLL for (int q = 0; q < rows; q++) {
            const REAL *from = weight + q * depth + k;
            __builtin_prefetch(from + AHEAD_ONCE, 0, 0);
            sum[q] += part * NAME(load)(from);
        }
    }
    if (rest) {
        vec part = NAME(load_some)(x + whole, rest);
        UNROLL for (int q = 0; q < rows; q++)
            sum[q] += part * NAME(load_some)(weight + q * depth + whole, rest);
    }
}

/* LANES rows, four at a time and in a loop: all at once would want a register for the address of
 * each. What was found moves up by one, since a loop cannot choose a register by its number. */
INLINE vec NAME(finished_dots)(const REAL *x, const REAL *weight, int64_t depth) {
    enum { together = LANES < 4 ? LANES : 4, turns = LANES / together };
    vec found[turns] = {0};
    ROLLED for (int i = 0; i < turns; i++, weight += together * depth) {
        vec sum[together];
        NAME(unfinished_dots)(together, x, weight, depth, sum);
        UNROLL for (int q = 1; q < turns; q++) found[q - 1] = found[q];
        found[turns - 1] = NAME(fold)(together, sum, LANES);
    }
    return NAME(fold)(turns, found, turns);
}

/* to[i] = weight[i] . x, with the weight as the caller stores it: for so few rows that packing
 * would cost more than the product. */
TARGET static void NAME(dots)(const REAL *x, const REAL *weight, int64_t depth, int64_t count,
                              REAL *to) {
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        NAME(store)(to + i, NAME(finished_dots)(x, weight + i * depth, depth));
    for (; i < count; i++) {
        vec sum;
        NAME(unfinished_dots)(1, x, weight + i * depth, depth, &sum);
        to[i] = NAME(total)(sum);
    }
}
