// The backward pass of the small scan: from the last step to the first.

// `grad_drive` may lie in `saved`: a thread reads the gates of a step before it writes there.
extern "C" __global__ void __launch_bounds__(NT, 1)
scan_backward(const io_t* __restrict__ grad_states, const io_t* __restrict__ grad_cells,
              const io_t* __restrict__ h0, const io_t* __restrict__ c0,
              const io_t* __restrict__ left, const io_t* __restrict__ right,
              const io_t* __restrict__ diagonal, const io_t* __restrict__ masks,
              const io_t* __restrict__ hold, const io_t* __restrict__ hold_cell,
              const io_t* __restrict__ states, const io_t* __restrict__ cells,
              const io_t* saved, io_t* grad_drive,
              io_t* __restrict__ grad_h0, io_t* __restrict__ grad_c0,
              float* __restrict__ summaries, int T, int B) {
  extern __shared__ __align__(16) float smem[];
  // One vector of pre-activation gradients for each gate; dense, every other step has its own.
  float* const places[2] = {smem, smem + (DENSE ? G * XP : 0)};
  float* z1 = places[1] + G * XP;
  float* z2 = z1 + round_up(Z1, 4);
  float* extra = z2 + round_up(Z2, 4);
  const int b = blockIdx.x;
  const Factors f = {left, right, diagonal, masks, B, b};
  for (int i = threadIdx.x; i < extra - smem; i += NT) smem[i] = 0.0f;

  BProject1 project1;
  BExpand1 expand1;
  project1.load(extra,
      [&](int gate, int row, int col) {
        const int g = MERGED ? col / XP : gate, i = MERGED ? col % XP : col;
        return i < N ? f.expand(g, i, row) : 0.0f;
      },
      [&](int gate, int row) { return gate * D + row; });
  expand1.load(extra + BProject1::SHARED, [&](int i, int, int k) {
    if (!DENSE) return f.project(k / DD, k % DD, i);
    return k % XP < N ? f.expand(k / XP, k % XP, i) : 0.0f;
  });
#if CELL == 1
  BProject2 project2;
  BExpand2 expand2;
  float* extra2 = extra + BProject1::SHARED + BExpand1::SHARED;
  project2.load(extra2, [&](int, int row, int col) { return f.expand(2, col, row); },
                [&](int, int row) { return row; });
  expand2.load(extra2 + BProject2::SHARED,
               [&](int i, int, int k) { return DENSE ? f.expand(2, k, i) : f.project(2, k, i); });
#endif

  const int unit0 = (threadIdx.x / S) * UPT + ((threadIdx.x % S) / DUP) * E;
  const long long plane = (long long)T * B * N;
  const offset_t step = (offset_t)B * N * sizeof(io_t);
  const offset_t row = ((offset_t)b * N + unit0) * sizeof(io_t);
  offset_t here = row + (offset_t)(T - 1) * step;
  float* summary = summaries + ((long long)(T - 1) * B + b) * SLOTS * D;
  // Per step: gradient of the state, the state before (LSTM: the cell), what the forward saved.
  constexpr int SAVED = CELL == 1 ? 3 : 4;
  constexpr int LOADS = SAVED + (CELL == 2 ? 3 : 2);
  float dh[E], diag[G][E], even[LOADS][E], odd[LOADS][E];
#if CELL == 2
  float dcell[E];
#endif
  bool valid[E];
#pragma unroll
  for (int e = 0; e < E; e++) {
    valid[e] = FULL || unit0 + e < N;
    dh[e] = 0.0f;
#if CELL == 2
    dcell[e] = 0.0f;
#endif
#pragma unroll
    for (int g = 0; g < G; g++) diag[g][e] = f.diag(g, unit0 + e);
  }
  auto fetch = [&](float (&into)[LOADS][E], int t, offset_t offset) {
    const io_t* before = CELL == 2 ? (t > 0 ? cells : c0) : (t > 0 ? states : h0);
    const offset_t before_at = t > 0 ? offset - step : row;
#pragma unroll
    for (int e = 0; e < E; e++) {
      into[0][e] = fetch_at(grad_states, offset, e, valid[e]);
      into[1][e] = fetch_at(before, before_at, e, valid[e]);
#pragma unroll
      for (int k = 0; k < SAVED; k++)
        into[2 + k][e] = fetch_at(saved + k * plane, offset, e, valid[e]);
#if CELL == 2
      into[2 + SAVED][e] = grad_cells ? fetch_at(grad_cells, offset, e, valid[e]) : 0.0f;
#endif
    }
  };
  fetch(even, T - 1, here);
  __syncthreads();

  auto retreat = [&](int t, float (&in)[LOADS][E], float (&other)[LOADS][E], float* xs) {
    float direct[E], keep[E], y[E][1], grad[G][E];
#pragma unroll
    for (int e = 0; e < E; e++) {
      keep[e] = 0.0f;
#if HOLD == 1
      keep[e] = to_float(hold[(long long)t * B + b]);
#elif HOLD == 2
      keep[e] = read_at(hold, here, e, valid[e]);
#endif
    }
#if CELL == 2
#pragma unroll
    for (int e = 0; e < E; e++) {
      float keep_cell = 0.0f;
#if HOLD_CELL == 1
      keep_cell = to_float(hold_cell[(long long)t * B + b]);
#elif HOLD_CELL == 2
      keep_cell = read_at(hold_cell, here, e, valid[e]);
#endif
      const float i = in[2][e], k = in[3][e], g = in[4][e], o = in[5][e];
      const float total = dh[e] + in[0][e], total_cell = dcell[e] + in[6][e];
      const float fresh = HOLD ? total * (1.0f - keep[e]) : total;
      const float squashed = tanh_exact(fmaf(i, g, k * in[1][e]));  // of the proposed cell
      const float dout = fresh * squashed * o * (1.0f - o);
      const float let_in = HOLD_CELL ? total_cell * (1.0f - keep_cell) : total_cell;
      const float dc = fmaf(fresh * o, 1.0f - squashed * squashed, let_in);
      const float din = dc * g * i * (1.0f - i);
      const float dkeep = dc * in[1][e] * k * (1.0f - k);
      const float dcand = dc * i * (1.0f - g * g);
      dcell[e] = HOLD_CELL ? fmaf(dc, k, keep_cell * total_cell) : dc * k;
      direct[e] = HOLD ? keep[e] * total : 0.0f;
      if (DIAG) {
        direct[e] = fmaf(diag[0][e], din, direct[e]);
        direct[e] = fmaf(diag[1][e], dkeep, direct[e]);
        direct[e] = fmaf(diag[2][e], dcand, direct[e]);
        direct[e] = fmaf(diag[3][e], dout, direct[e]);
      }
      if (valid[e]) {
        xs[unit0 + e] = din;
        xs[XP + unit0 + e] = dkeep;
        xs[2 * XP + unit0 + e] = dcand;
        xs[3 * XP + unit0 + e] = dout;
      }
      grad[0][e] = din;
      grad[1][e] = dkeep;
      grad[2][e] = dcand;
      grad[3][e] = dout;
    }
#else
    float dc[E], du[E];
#pragma unroll
    for (int e = 0; e < E; e++) {
      const float u = in[3][e], c = in[4][e], before = in[1][e];
      const float total = dh[e] + in[0][e];
      const float fresh = HOLD ? total * (1.0f - keep[e]) : total;
      du[e] = fresh * (before - c) * u * (1.0f - u);
      dc[e] = fresh * (1.0f - u) * (1.0f - c * c);
      direct[e] = fresh * u;
      if (HOLD) direct[e] = fmaf(keep[e], total, direct[e]);
      if (DIAG) direct[e] = fmaf(diag[1][e], du[e], direct[e]);
#if CELL == 0
      const float r = in[2][e];
      const float dq = dc[e] * r;
      const float dr = dc[e] * in[5][e] * r * (1.0f - r);
      if (DIAG) {
        direct[e] = fmaf(diag[0][e], dr, direct[e]);
        direct[e] = fmaf(diag[2][e], dq, direct[e]);
      }
#endif
      grad[1][e] = du[e];
      grad[2][e] = dc[e];
#if CELL == 0
      grad[0][e] = dr;
#endif
      if (valid[e]) {
        xs[XP + unit0 + e] = du[e];
#if CELL == 0
        xs[unit0 + e] = dr;
        xs[2 * XP + unit0 + e] = dq;
#else
        xs[2 * XP + unit0 + e] = dc[e];
#endif
      }
    }
#if CELL == 1
    __syncthreads();
    Summary<FZ1, 1, D> second;
    if (!DENSE) {
      project2.run(xs + 2 * XP, z2);
      __syncthreads();
      second.take(z2);
    }
    expand2.run(DENSE ? xs + 2 * XP : z2, y);
#pragma unroll
    for (int e = 0; e < E; e++) {
      const float r = in[2][e];
      const float ds = DIAG ? fmaf(diag[2][e], dc[e], y[e][0]) : y[e][0];
      const float dr = ds * in[1][e] * r * (1.0f - r);
      direct[e] = fmaf(ds, r, direct[e]);
      if (DIAG) direct[e] = fmaf(diag[0][e], dr, direct[e]);
      if (valid[e]) xs[unit0 + e] = dr;
      grad[0][e] = dr;
    }
#endif
#endif
    __syncthreads();
#pragma unroll
    for (int e = 0; e < E; e++)
      if (valid[e]) {
#pragma unroll
        for (int g = 0; g < G; g++) write_at(grad_drive + g * plane, here, e, grad[g][e]);
      }
    if (t > 0) fetch(other, t - 1, here - step);
    if (t >= AHEAD && valid[0]) {
      prefetch_at(grad_states, here - AHEAD * step);
      if (CELL != 2) prefetch_at(states, here - AHEAD * step);
#pragma unroll
      for (int k = 0; k < SAVED; k++) prefetch_at(saved + k * plane, here - AHEAD * step);
#if CELL == 2
      prefetch_at(cells, here - AHEAD * step);
      if (grad_cells) prefetch_at(grad_cells, here - AHEAD * step);
#endif
    }
    Summary<0, FZ1, D> first;
    if (!DENSE) {
      project1.run(xs, z1);
      __syncthreads();
      first.take(z1);
    }
    expand1.run(DENSE ? xs : z1, y);
#pragma unroll
    for (int e = 0; e < E; e++) dh[e] = direct[e] + y[e][0];
    first.put(summary);
#if CELL == 1
    second.put(summary);
#endif
    summary -= (long long)B * SLOTS * D;
    here -= step;
  };
  int t = T - 1;
  for (; t > 0; t -= 2) {
    retreat(t, even, odd, places[0]);
    retreat(t - 1, odd, even, places[1]);
  }
  if (t == 0) retreat(t, even, odd, places[0]);
#pragma unroll
  for (int e = 0; e < E; e++)
    if (valid[e]) {
      write_at(grad_h0, row, e, dh[e]);
#if CELL == 2
      write_at(grad_c0, row, e, dcell[e]);
#endif
    }
}
