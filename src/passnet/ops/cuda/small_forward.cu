// The forward pass of the small scan: one block for each sequence, from first step to last.

// `saved` may hold the drive: the block has copied that of a step before any thread writes its gates. The reset
// gate of a GRU lies apart. Initial states that are not given are zero.
extern "C" __global__ void __launch_bounds__(NT, 1)
scan_forward(const io_t* drive, const io_t* __restrict__ h0,
             const io_t* __restrict__ c0, const io_t* __restrict__ left,
             const io_t* __restrict__ right, const io_t* __restrict__ diagonal,
             const io_t* __restrict__ masks, const io_t* __restrict__ hold,
             const io_t* __restrict__ hold_cell, const io_t* __restrict__ inner,
             io_t* __restrict__ states, io_t* __restrict__ cells,
             io_t* __restrict__ reset, io_t* saved, io_t* __restrict__ summaries, int T, int B) {
  extern __shared__ __align__(16) float smem[];
  float* xs = smem;                 // state entering the matrices
  float* xr = xs + XP;              // reset state (reset before), every other state (dense)
  float* z1 = xr + XP;
  float* z2 = z1 + round_up(Z1, 4);
  typedef Ring<G, false> Drives;
  float* slots = z2 + round_up(Z2, 4);
  float* extra = slots + Drives::SHARED;
  const int b = blockIdx.x;
  const Factors f = {left, right, diagonal, masks, B, b};
  for (int i = threadIdx.x; i < extra - smem; i += NT) smem[i] = 0.0f;

  FProject1 project1;
  FExpand1 expand1;
  project1.load(extra, [&](int, int row, int col) { return f.project(row / DD, row % DD, col); },
                [&](int, int row) { return row / DD * DP + row % DD; });
  expand1.load(extra + FProject1::SHARED, [&](int i, int o, int k) { return f.expand(o, i, k); });
#if CELL == 1
  FProject2 project2;
  FExpand2 expand2;
  float* extra2 = extra + FProject1::SHARED + FExpand1::SHARED;
  project2.load(extra2, [&](int, int row, int col) { return f.project(2, row, col); },
                [&](int, int row) { return row; });
  expand2.load(extra2 + FProject2::SHARED, [&](int i, int, int k) { return f.expand(2, i, k); });
#endif

  const int unit0 = (threadIdx.x / S) * UPT + ((threadIdx.x % S) / DUP) * E;
  const long long plane = (long long)T * B * N;
  const offset_t step = (offset_t)B * N * sizeof(io_t);
  offset_t here = ((offset_t)b * N + unit0) * sizeof(io_t);
  const offset_t row = here;
  io_t* summary = summaries + (long long)b * SLOTS * D;
  constexpr int KEPT = CELL == 1 ? 3 : 4;
  float h[E], diag[G][E];
#if CELL == 2
  float cell[E];
#endif
#if INNER
  float inner_bias[E];
#endif
  bool valid[E];
#pragma unroll
  for (int e = 0; e < E; e++) {
    valid[e] = FULL || unit0 + e < N;
    h[e] = to_float(read_at(h0, row, e, h0 && valid[e]));
#if CELL == 2
    cell[e] = to_float(read_at(c0, row, e, c0 && valid[e]));
#endif
#if INNER
    inner_bias[e] = to_float(read(inner + unit0 + e, valid[e]));
#endif
#pragma unroll
    for (int g = 0; g < G; g++) diag[g][e] = f.diag(g, unit0 + e);
  }
  __syncthreads();  // all is zero
  Drives ring;
  ring.open(slots, G, T, [&](int g, int t) { return drive + g * plane + ((long long)t * B + b) * N; });
#pragma unroll
  for (int t = 0; t < STAGES - 1; t++) ring.ask(t, T, step);
  wait_for_groups<STAGES - 2>();
#pragma unroll
  for (int e = 0; e < E; e++)
    if (valid[e]) xs[unit0 + e] = h[e];
  __syncthreads();

  // What a step leaves behind is stored in the next one, while that multiplies. Before the first step it is
  // nothing, stored where the first step will be.
  float kept[KEPT][E];
#pragma unroll
  for (int i = 0; i < KEPT * E; i++) kept[i / E][i % E] = 0.0f;
  Summary<0, FZ1, DP> first;
  Summary<FZ1, 1, DP> second;
  offset_t last = here;
  auto store = [&] {
#pragma unroll
    for (int e = 0; e < E; e++)
      if (valid[e]) {
        write_at(states, last, e, h[e]);
#if CELL == 2
        write_at(cells, last, e, cell[e]);
#endif
#pragma unroll
        for (int k = 0; k < KEPT; k++) write_at(gate_plane<CELL != 2>(reset, saved, k, plane), last, e, kept[k][e]);
      }
    first.put(summary);
    if (CELL == 1) second.put(summary);
    if (last != here) summary += (long long)B * SLOTS * D;
    last = here;
  };
  auto advance = [&](int t, const float* from, float* to) {
    io_t drives[G][E];
#pragma unroll
    for (int g = 0; g < G; g++)
#pragma unroll
      for (int e = 0; e < E; e++) drives[g][e] = ring.read(t, g, unit0 + e, valid[e]);
    io_t held[E], held_cell[E];
#pragma unroll
    for (int e = 0; e < E; e++) {
#if HOLD == 1
      held[e] = hold[(long long)t * B + b];
#elif HOLD == 2
      held[e] = read_at(hold, here, e, valid[e]);
#endif
#if HOLD_CELL == 1
      held_cell[e] = hold_cell[(long long)t * B + b];
#elif HOLD_CELL == 2
      held_cell[e] = read_at(hold_cell, here, e, valid[e]);
#endif
    }

    if (!DENSE) {
      project1.run(from, z1);
      __syncthreads();
    }
    float y[E][NP1];
    expand1.run(DENSE ? from : z1, y);
    store();
    if (!DENSE) first.take(z1);
    ring.ask(t + STAGES - 1, T, step);
    auto in = [&](int g, int e) { return to_float(drives[g][e]); };
    auto mixed = [](io_t keep, float before, float fresh) {
      const float k = to_float(keep);
      return k * before + (1.0f - k) * fresh;
    };
#if CELL == 0
#pragma unroll
    for (int e = 0; e < E; e++) {
      const float r = sigmoid(in(0, e) + fmaf(diag[0][e], h[e], y[e][0]));
      const float u = sigmoid(in(1, e) + fmaf(diag[1][e], h[e], y[e][1]));
      float q = fmaf(diag[2][e], h[e], y[e][2]);
#if INNER
      q += inner_bias[e];
#endif
      const float c = tanh_of(fmaf(r, q, in(2, e)));
      float fresh = fmaf(u, h[e] - c, c);
      if (HOLD) fresh = mixed(held[e], h[e], fresh);
      h[e] = fresh;
      if (valid[e]) to[unit0 + e] = fresh;
      kept[0][e] = r;
      kept[1][e] = u;
      kept[2][e] = c;
      kept[3][e] = q;
    }
#elif CELL == 1
    float from_diag[E];
#pragma unroll
    for (int e = 0; e < E; e++) {
      const float r = sigmoid(in(0, e) + fmaf(diag[0][e], h[e], y[e][0]));
      const float rh = r * h[e];
      from_diag[e] = fmaf(diag[2][e], rh, in(2, e));
      if (valid[e]) xr[unit0 + e] = rh;
      kept[0][e] = r;
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < E; e++)
      kept[1][e] = sigmoid(in(1, e) + fmaf(diag[1][e], h[e], y[e][1]));
    if (!DENSE) {
      project2.run(xr, z2);
      __syncthreads();
      second.take(z2);
    }
    float v[E][1];
    expand2.run(DENSE ? xr : z2, v);
#pragma unroll
    for (int e = 0; e < E; e++) {
      const float c = tanh_of(from_diag[e] + v[e][0]);
      float fresh = fmaf(kept[1][e], h[e] - c, c);
      if (HOLD) fresh = mixed(held[e], h[e], fresh);
      h[e] = fresh;
      if (valid[e]) to[unit0 + e] = fresh;
      kept[2][e] = c;
    }
#else
#pragma unroll
    for (int e = 0; e < E; e++) {
      const float i = sigmoid(in(0, e) + fmaf(diag[0][e], h[e], y[e][0]));
      const float k = sigmoid(in(1, e) + fmaf(diag[1][e], h[e], y[e][1]));
      const float g = tanh_of(in(2, e) + fmaf(diag[2][e], h[e], y[e][2]));
      const float o = sigmoid(in(3, e) + fmaf(diag[3][e], h[e], y[e][3]));
      const float c = fmaf(i, g, k * cell[e]);
      float fresh = o * tanh_of(c);
      cell[e] = HOLD_CELL ? mixed(held_cell[e], cell[e], c) : c;
      if (HOLD) fresh = mixed(held[e], h[e], fresh);
      h[e] = fresh;
      if (valid[e]) to[unit0 + e] = fresh;
      kept[0][e] = i;
      kept[1][e] = k;
      kept[2][e] = g;
      kept[3][e] = o;
    }
#endif
    wait_for_groups<STAGES - 2>();
    __syncthreads();
    here += step;
  };
  // Where nothing but the state is shared, two places for it save the barrier before it is written.
  float* const next = DENSE && CELL != 1 ? xr : xs;
  int t = 0;
  for (; t + 1 < T; t += 2) {
    advance(t, xs, next);
    advance(t + 1, next, xs);
  }
  if (t < T) advance(t, xs, next);
  store();
}
