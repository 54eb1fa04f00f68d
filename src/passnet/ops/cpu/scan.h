/* What a caller hands to the compiled scans; library.py mirrors this struct field by field. */
#ifndef PASSNET_SCAN_H
#define PASSNET_SCAN_H

#include <stdint.h>

enum { GRU_AFTER, GRU_BEFORE, LSTM };

/* All tensors are contiguous and of one element type. T steps, B sequences, n units. */
typedef struct {
    int64_t cell;
    int64_t is_double;
    int64_t steps, batch, units;
    int64_t rank;            /* 0: dense */
    int64_t tied;            /* project is [1, d, n] */
    int64_t mask_count;      /* 0, 1 or the number of gates */
    int64_t hold_width;      /* 0, 1 or n */
    int64_t hold_cell_width;
    int64_t threads;
    int64_t width;           /* m, of inputs that form the drive */

    const void *drive;       /* [G, T, B, n], or NULL: W x + b of features, columns of W for symbols */
    const void *input;       /* [T, B, m] */
    const int64_t *symbols;  /* [T, B], from 0 to m - 1 */
    const void *weight;      /* [G, n, m] */
    const void *bias;        /* [G, n] or NULL */
    const void *initial;     /* [B, n] */
    const void *initial_cell;
    const void *expand;      /* [G, n, d], or the dense weight [G, n, n] */
    const void *project;     /* [G or 1, d, n] */
    const void *diagonal;    /* [G, n] or NULL */
    const void *masks;       /* [mask_count, B, n] */
    const void *hold;        /* [T, B, hold_width] */
    const void *hold_cell;
    const void *inner_bias;  /* [n] or NULL */

    void *states;            /* [T, B, n]: written forward, read backward, as are the next two */
    void *cells;
    void *kept;              /* NULL where there is to be no backward, or
                                GRU [4, T, B, n]: reset, carry, candidate, and for reset-after
                                the inner product; LSTM [5, T, B, n]: four gates, tanh of the
                                proposed cell */

    void *summaries;         /* [T, B, s], written: what each group of gates that read one vector x has
                                in common, R x forward and L^T dy backward; one after another d
                                numbers for each gate, or where the group is tied for all of it.
                                NULL where nobody wants them */

    const void *grad_states; /* [T, B, n] */
    const void *grad_cells;
    void *grad_drive;        /* [G, T, B, n]; may be all but the first slot of what was kept */
    void *grad_initial;      /* [B, n] */
    void *grad_initial_cell;
} scan_call;

/* What is another one at every step of a stream. */
typedef struct {
    int64_t rows;            /* B */
    int64_t threads;         /* at most */
    const void *input;       /* [B, m], or NULL where there are symbols */
    const int64_t *symbols;
    const void *state, *cell;
    void *next_state, *next_cell;
    void *output;            /* the next state once more, or NULL */
} step_tensors;

/* The gradients of low-rank factors, behind the backward scan of a call. */
typedef struct {
    const void *ahead;       /* the summaries of the forward scan; the call has those backward */
    void *grad_expand;       /* [G, n, d] */
    void *grad_project;      /* [G or 1, d, n] */
    void *grad_diagonal;     /* [G, n] or NULL */
    void *grad_inner;        /* [n] or NULL */
} factor_gradients;

#endif
