// The unitary RNN, backwards: one block for each sequence, from last step to first. The adjoint of a
// unitary factor is its inverse. A gradient g of a complex number is that of its real part plus i times
// that of its imaginary part.

// What one step needs of one unit.
struct Unit {
  Complex grad, state, before, after;  // of the output; h; F D1 of the old state; what R2 reflects
  float scale;
};

extern "C" __global__ void __launch_bounds__(NT, 1)
unitary_backward(const float* __restrict__ grads, const float* __restrict__ h0,
                 const Complex* __restrict__ tables, const Complex* __restrict__ turns,
                 const Complex* __restrict__ vectors, const float* __restrict__ strengths,
                 const long long* __restrict__ permutation,
                 const unsigned char* __restrict__ ended, const float* __restrict__ states,
                 const Complex* __restrict__ spectra, const float* __restrict__ scales,
                 const Complex* __restrict__ sums, float* __restrict__ grad_drive,
                 float* __restrict__ grad_h0, float* __restrict__ parts, int T, int B) {
  extern __shared__ __align__(16) float smem[];
  const Room room(smem, tables, turns, vectors, permutation);
  const Fourier fourier(tables, room.roots);
  const int b = blockIdx.x;
  const long long plane = (long long)T * B * N;
  const float strength[2] = {strengths[0], strengths[1]};

  Unit now[E];
  Complex first, second;  // the sums of the two reflections
  Complex carry[E], vector[2][E];
  float angle[3][E], offset[E], shrunk[2] = {0.0f, 0.0f};
  // The state before the first step is the initial one, and nothing else is read there.
  auto fetch = [&](int t) {
    const long long row = (long long)t * B + b;
    if (t >= 0) {
      first = {load_here(&sums[2 * row].re), load_here(&sums[2 * row].im)};
      second = {load_here(&sums[2 * row + 1].re), load_here(&sums[2 * row + 1].im)};
    }
    if (t > 0) prefetch_l2(sums + 2 * (row - B));
#pragma unroll
    for (int e = 0; e < E; e++) {
      const int i = threadIdx.x + e * NT;
      if (i >= N) continue;
      const float* state = t < 0 ? h0 + 2LL * b * N + i : states + 2 * row * N + i;
      now[e].state = {load_here(state), load_here(state + N)};
      if (t < 0) continue;
      const float* grad = grads + 2 * row * N + i;
      const Complex* seen = spectra + row * N + i;
      now[e].grad = {load_here(grad), load_here(grad + N)};
      now[e].before = {load_here(&seen->re), load_here(&seen->im)};
      now[e].after = {load_here(&seen[plane].re), load_here(&seen[plane].im)};
      now[e].scale = load_here(scales + row * N + i);
      if (t == 0) continue;
      const long long back = (long long)B * N;
      prefetch_l2(state - 2 * back);
      prefetch_l2(state - 2 * back + N);
      prefetch_l2(grad - 2 * back);
      prefetch_l2(grad - 2 * back + N);
      prefetch_l2(seen - back);
      prefetch_l2(seen + plane - back);
      prefetch_l2(scales + (row - B) * N + i);
    }
  };
#pragma unroll
  for (int e = 0; e < E; e++) {
    carry[e] = vector[0][e] = vector[1][e] = {0.0f, 0.0f};
    angle[0][e] = angle[1][e] = angle[2][e] = offset[e] = 0.0f;
  }
  fetch(T - 1);

#pragma unroll 1
  for (int t = T - 1; t >= 0; t--) {
    const long long row = (long long)t * B + b;
    if (ended && ended[row]) {
#pragma unroll
      for (int e = 0; e < E; e++) {
        const int i = threadIdx.x + e * NT;
        if (i >= N) continue;
        carry[e] = carry[e] + now[e].grad;
        grad_drive[row * N + i] = grad_drive[plane + row * N + i] = 0.0f;
      }
      fetch(t - 1);
      continue;
    }

    // modReLU lets the radial part of a gradient through and scales the rest as it scaled the number.
    Complex along = {0.0f, 0.0f}, back[E];
#pragma unroll
    for (int e = 0; e < E; e++) {
      const int i = threadIdx.x + e * NT;
      if (i >= N) continue;
      const Complex g = carry[e] + now[e].grad;
      const float m = modulus(now[e].state);
      const Complex phase = (m > 0.0f ? 1.0f / m : 0.0f) * now[e].state;
      const float radial = inner(phase, g);
      offset[e] += radial;
      const Complex grad = now[e].scale * g + (radial - now[e].scale * radial) * phase;
      grad_drive[row * N + i] = grad.re;
      grad_drive[plane + row * N + i] = grad.im;
      back[e] = conj(room.turn[2][i]) * grad;
      const Complex turned = now[e].after - (strength[1] * second) * room.along[1][i];
      angle[2][e] += outer(turned, back[e]);
      along = along + conj(room.along[1][i]) * back[e];
    }
    room.put(along);
    __syncthreads();
    along = room.total();
    shrunk[1] += inner(along, second);
#pragma unroll
    for (int e = 0; e < E; e++) {
      const int i = threadIdx.x + e * NT;
      if (i >= N) continue;
      room.x[i] = back[e] - (strength[1] * along) * room.along[1][i];
      vector[1][e] = vector[1][e] + (conj(second) * back[e] + conj(along) * now[e].after);
    }
    __syncthreads();

    along = {0.0f, 0.0f};
    fourier.run<false>(room.x, room.y, [&](int i, Complex v) {
      v = conj(room.turn[1][i]) * v;
      room.x[room.from[i]] = v;
      along = along + conj(room.along[0][room.from[i]]) * v;
    });
    room.put(along);
    __syncthreads();
    along = room.total();
    shrunk[0] += inner(along, first);
#pragma unroll
    for (int e = 0; e < E; e++) {
      const int i = threadIdx.x + e * NT;
      if (i >= N) continue;
      const Complex g = room.x[i], v = room.along[0][i];
      angle[1][e] += outer(now[e].before - (strength[0] * first) * v, g);
      room.y[i] = g - (strength[0] * along) * v;
      vector[0][e] = vector[0][e] + (conj(first) * g + conj(along) * now[e].before);
    }
    __syncthreads();
    fourier.run<true>(room.y, room.x, [&](int i, Complex v) { room.y[i] = v; });
    // Only here, from L2: through the transforms the table takes the registers.
    fetch(t - 1);
    __syncthreads();
#pragma unroll
    for (int e = 0; e < E; e++) {
      const int i = threadIdx.x + e * NT;
      if (i >= N) continue;
      carry[e] = conj(room.turn[0][i]) * room.y[i];
      angle[0][e] += outer(now[e].state, carry[e]);
    }
  }

  // The second angles were summed where their gradients came to lie, before the permutation.
#pragma unroll
  for (int e = 0; e < E; e++) {
    const int i = threadIdx.x + e * NT;
    if (i < N) room.x[i].re = angle[1][e];
  }
  __syncthreads();
#pragma unroll
  for (int e = 0; e < E; e++) {
    const int i = threadIdx.x + e * NT;
    if (i >= N) continue;
    grad_h0[2LL * b * N + i] = carry[e].re;
    grad_h0[(2LL * b + 1) * N + i] = carry[e].im;
    float* out = parts + 8LL * b * N + i;
    out[0] = angle[0][e];
    out[N] = room.x[room.from[i]].re;
    out[2 * N] = angle[2][e];
    out[3 * N] = offset[e];
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const float c = strength[r];
      const Complex g = (c * c * shrunk[r]) * room.along[r][i] - c * vector[r][e];
      out[(4 + 2 * r) * N] = g.re;
      out[(5 + 2 * r) * N] = g.im;
    }
  }
}
