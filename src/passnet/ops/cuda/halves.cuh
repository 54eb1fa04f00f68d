// Products of float32 accuracy on tensor cores. A number is the sum of two halves in float16, eleven
// bits each, and the product of two second halves is nothing. Powers of two bring numbers into the
// range of float16 first. Numbers below 2^-2 begin to lose bits of their own there; those of float32
// beside the largest, at 2^3 or more, are safe.

// Scales are powers of two, given by their biased exponents. This one takes the largest magnitude,
// given as its bits, to 2^top or more; the smallest ones, as far as there are powers of two. Nothing but
// zeros has no bit but the last, in which packets have a turn.
__device__ __forceinline__ unsigned scale_for(unsigned largest, int top) {
  const int wanted = 254 + top - (int)(largest > 1 ? largest >> 23 : 127);
  return wanted > 253 ? 253 : wanted;
}
__device__ __forceinline__ float power(unsigned exponent) { return __uint_as_float(exponent << 23); }
__device__ __forceinline__ float inverse(unsigned exponent) { return power(254 - exponent); }

// Two numbers as their halves.
__device__ __forceinline__ void split_pair(float a, float b, unsigned& high, unsigned& low) {
  high = pack_halves(a, b);
  low = pack_halves(a - from_float16(high & 0xffff), b - from_float16(high >> 16));
}
// part[16, 8] = a[16, 16] b[16, 8]. Such sums are to be added up outside of the tensor core, where they
// round to nearest.
__device__ __forceinline__ void multiply_halves(float (&part)[4], const unsigned (&a_high)[4],
                                                const unsigned (&a_low)[4],
                                                const unsigned (&b_high)[2],
                                                const unsigned (&b_low)[2]) {
  part[0] = part[1] = part[2] = part[3] = 0.0f;
  mma(part, a_low, b_high);
  mma(part, a_high, b_low);
  mma(part, a_high, b_high);
}
