// The gate of a Highway layer, number by number: out = t a(b0) + (1 - t) state with t = sigmoid(b1),
// for b[2, count] before the activations.
//
// Compile-time constant: RELU, or else the activation a is tanh.

struct Gate {
  float transform, candidate, slope;  // slope: of the activation
};
// A number that is none stays one, as in torch.
__device__ __forceinline__ Gate gate_of(float b0, float b1) {
#if RELU
  return {sigmoid(b1), b0 <= 0.0f ? 0.0f : b0, b0 <= 0.0f ? 0.0f : 1.0f};
#else
  const float c = tanh_of(b0);
  return {sigmoid(b1), c, fmaf(-c, c, 1.0f)};
#endif
}

extern "C" __global__ void __launch_bounds__(256)
gate_forward(const float* __restrict__ state, const float* __restrict__ before,
             float* __restrict__ out, long long count) {
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i >= count) return;
  const Gate gate = gate_of(before[i], before[count + i]);
  out[i] = fmaf(gate.candidate, gate.transform, state[i] * (1.0f - gate.transform));
}

extern "C" __global__ void __launch_bounds__(256)
gate_backward(const float* __restrict__ grad, const float* __restrict__ state,
              const float* __restrict__ before, float* __restrict__ dstate,
              float* __restrict__ dbefore, long long count) {
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i >= count) return;
  const Gate gate = gate_of(before[i], before[count + i]);
  const float through = grad[i] * gate.transform, kept = 1.0f - gate.transform;
  dstate[i] = grad[i] * kept;
  dbefore[i] = through * gate.slope;
  dbefore[count + i] = through * kept * (gate.candidate - state[i]);
}
