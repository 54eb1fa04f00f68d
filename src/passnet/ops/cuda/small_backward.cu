// The backward pass of the small scan: from the last step to the first.

// `grad_drive` may lie in `saved`, and `behind` in `reset`: the block has copied the gates of a step before any
// thread writes there. `behind`, where dense matrices have one, takes the gradient of the product that a reset
// gate follows.
extern "C" __global__ void __launch_bounds__(NT, 1)
scan_backward(const io_t* __restrict__ grad_states, const io_t* __restrict__ grad_cells,
              const io_t* __restrict__ h0, const io_t* __restrict__ c0,
              const io_t* __restrict__ left, const io_t* __restrict__ right,
              const io_t* __restrict__ diagonal, const io_t* __restrict__ masks,
              const io_t* __restrict__ hold, const io_t* __restrict__ hold_cell,
              const io_t* __restrict__ states, const io_t* __restrict__ cells,
              const io_t* reset, const io_t* saved, io_t* grad_drive, io_t* behind,
              io_t* __restrict__ grad_h0, io_t* __restrict__ grad_c0,
              io_t* __restrict__ summaries, int T, int B) {
  extern __shared__ __align__(16) float smem[];
  // One vector of pre-activation gradients for each gate; dense, every other step has its own.
  float* const places[2] = {smem, smem + (DENSE ? G * XP : 0)};
  float* z1 = places[1] + G * XP;
  float* z2 = z1 + round_up(Z1, 4);
  // Of each step: what the forward saved, the state before (LSTM: the cell), the gradients of the results.
  constexpr int SAVED = CELL == 1 ? 3 : 4, BEFORE = SAVED, GRAD = SAVED + 1, GRAD_CELL = SAVED + 2;
  typedef Ring<CELL == 2 ? SAVED + 3 : SAVED + 2, true> Steps;
  float* slots = z2 + round_up(Z2, 4);
  float* extra = slots + Steps::SHARED;
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
  io_t* summary = summaries + ((long long)(T - 1) * B + b) * SLOTS * D;
  float dh[E], diag[G][E];
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
  __syncthreads();  // all is zero
  Steps ring;
  auto row_of = [&](int which, int t) {
    const long long at = ((long long)t * B + b) * N;
    if (which < SAVED) return gate_plane<CELL != 2>(reset, saved, which, plane) + at;
    if (which == GRAD) return grad_states + at;
    if (which == GRAD_CELL) return grad_cells + at;
    const io_t* before = CELL == 2 ? cells : states;
    const io_t* start = CELL == 2 ? c0 : h0;
    return t > 0 ? before + at - (long long)B * N : start ? start + (long long)b * N : nullptr;
  };
  ring.open(slots, SAVED + (CELL == 2 && grad_cells ? 3 : 2), T, row_of);
#pragma unroll
  for (int s = 1; s <= STAGES; s++) ring.ask(T - s, T, -(long long)step);
  wait_for_groups<STAGES - 1>();
  __syncthreads();

  // What the gradients of a step are to be multiplied by, ready before they come, and what is held. `keep` leads
  // to the state before (LSTM: to the cell).
  struct Slopes {
    io_t hold, hold_cell;
    float grad, keep, dc;
#if CELL == 2
    float grad_cell, din, dkeep, dcand, dout;
#else
    float r, du, dr, dq;
#endif
  };
  auto held = [&](const io_t* tensor, int kind, int t, int e) {
    const long long at = (long long)(t > 0 ? t : 0) * B + b;
    return kind == 1 ? tensor[at] : read(tensor + at * N + unit0 + e, valid[e]);
  };
  auto prepare = [&](Slopes (&into)[E], int t) {
#pragma unroll
    for (int e = 0; e < E; e++) {
      if (HOLD) into[e].hold = held(hold, HOLD, t, e);
      if (HOLD_CELL) into[e].hold_cell = held(hold_cell, HOLD_CELL, t, e);
      auto in = [&](int k) { return to_float(ring.read(t, k, unit0 + e, valid[e])); };
      Slopes& s = into[e];
      s.grad = in(GRAD);
      const float before = in(BEFORE);
#if CELL == 2
      const float i = in(0), k = in(1), g = in(2), o = in(3);
      const float squashed = tanh_of(fmaf(i, g, k * before));  // of the proposed cell
      s.grad_cell = in(GRAD_CELL);
      s.keep = k;
      s.dc = o * (1.0f - squashed * squashed);
      s.din = g * i * (1.0f - i);
      s.dkeep = before * k * (1.0f - k);
      s.dcand = i * (1.0f - g * g);
      s.dout = squashed * o * (1.0f - o);
#else
      const float r = in(0), u = in(1), c = in(2);
      s.keep = u;
      s.r = r;
      s.dc = (1.0f - u) * (1.0f - c * c);
      s.du = (before - c) * u * (1.0f - u);
#if CELL == 0
      s.dq = s.dc * r;
      s.dr = s.dc * in(3) * r * (1.0f - r);
#else
      s.dr = before * r * (1.0f - r);
#endif
#endif
    }
  };
  Slopes even[E], odd[E];
  prepare(even, T - 1);

  auto retreat = [&](int t, const Slopes (&now)[E], Slopes (&other)[E], float* xs) {
    float direct[E], y[E][1], grad[G][E];
#if CELL == 2
#pragma unroll
    for (int e = 0; e < E; e++) {
      const Slopes& s = now[e];
      const float keep = HOLD ? to_float(s.hold) : 0.0f, keep_cell = HOLD_CELL ? to_float(s.hold_cell) : 0.0f;
      const float total = dh[e] + s.grad, total_cell = dcell[e] + s.grad_cell;
      const float fresh = HOLD ? total * (1.0f - keep) : total;
      const float let_in = HOLD_CELL ? total_cell * (1.0f - keep_cell) : total_cell;
      const float dc = fmaf(fresh, s.dc, let_in);
      const float din = dc * s.din, dkeep = dc * s.dkeep, dcand = dc * s.dcand, dout = fresh * s.dout;
      dcell[e] = HOLD_CELL ? fmaf(dc, s.keep, keep_cell * total_cell) : dc * s.keep;
      direct[e] = HOLD ? keep * total : 0.0f;
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
    float dc[E], dq[E];
#pragma unroll
    for (int e = 0; e < E; e++) {
      const Slopes& s = now[e];
      const float keep = HOLD ? to_float(s.hold) : 0.0f;
      const float total = dh[e] + s.grad;
      const float fresh = HOLD ? total * (1.0f - keep) : total;
      const float du = fresh * s.du;
      dc[e] = fresh * s.dc;
      direct[e] = fresh * s.keep;
      if (HOLD) direct[e] = fmaf(keep, total, direct[e]);
      if (DIAG) direct[e] = fmaf(diag[1][e], du, direct[e]);
#if CELL == 0
      const float dr = fresh * s.dr;
      dq[e] = fresh * s.dq;
      if (DIAG) {
        direct[e] = fmaf(diag[0][e], dr, direct[e]);
        direct[e] = fmaf(diag[2][e], dq[e], direct[e]);
      }
#endif
      grad[1][e] = du;
      grad[2][e] = dc[e];
#if CELL == 0
      grad[0][e] = dr;
#endif
      if (valid[e]) {
        xs[XP + unit0 + e] = du;
#if CELL == 0
        xs[unit0 + e] = dr;
        xs[2 * XP + unit0 + e] = dq[e];
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
      const float ds = DIAG ? fmaf(diag[2][e], dc[e], y[e][0]) : y[e][0];
      const float dr = ds * now[e].dr;
      direct[e] = fmaf(ds, now[e].r, direct[e]);
      if (DIAG) direct[e] = fmaf(diag[0][e], dr, direct[e]);
      if (valid[e]) xs[unit0 + e] = dr;
      grad[0][e] = dr;
    }
#endif
#endif
    wait_for_groups<STAGES - 2>();
    __syncthreads();
    Summary<0, FZ1, D> first;
    if (!DENSE) {
      project1.run(xs, z1);
      __syncthreads();
      first.take(z1);
    }
    expand1.run(DENSE ? xs : z1, y);
    // All this in the shadow of the sums over lanes; earlier it would keep the product's loads waiting.
    prepare(other, t - 1);
#pragma unroll
    for (int e = 0; e < E; e++)
      if (valid[e]) {
#pragma unroll
        for (int g = 0; g < G; g++) write_at(grad_drive + g * plane, here, e, grad[g][e]);
#if CELL == 0
        if (DENSE && behind) write_at(behind, here, e, dq[e]);
#endif
      }
    ring.ask(t - STAGES, T, -(long long)step);
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
    if (valid[e] && grad_h0) {
      write_at(grad_h0, row, e, dh[e]);
#if CELL == 2
      write_at(grad_c0, row, e, dcell[e]);
#endif
    }
}
