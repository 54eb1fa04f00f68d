"""The paper's RMSProp, its treatments of the gradient, and Adam, on lists of parameter arrays."""

from __future__ import annotations

import math

import numpy as np

INITIAL_ACCUMULATOR = 1e-3


def initial_accumulators(parameters):
    """The state RMSProp starts from: 1e-3 in every component, not zero."""
    accumulators = []
    for parameter in parameters:
        accumulator = np.zeros(np.shape(parameter))
        for index in np.ndindex(accumulator.shape):
            accumulator[index] = INITIAL_ACCUMULATOR
        accumulators.append(accumulator)
    return accumulators


def rmsprop_step(parameters, gradients, accumulators, rate, decay=0.9, epsilon=0.0):
    """Parameters and accumulators after one update of the paper's RMSProp.

    acc = decay * acc + (1 - decay) * g^2, then p = p - rate * g / sqrt(acc + epsilon): the
    epsilon, 1e-8 on the copy tasks and zero elsewhere, stands inside the root.
    """
    new_parameters = []
    new_accumulators = []
    for parameter, gradient, accumulator in zip(parameters, gradients, accumulators, strict=True):
        parameter = np.array(parameter, dtype=np.float64)
        accumulator = np.array(accumulator, dtype=np.float64)
        gradient = np.asarray(gradient, dtype=np.float64)
        for index in np.ndindex(parameter.shape):
            g = gradient[index]
            accumulator[index] = decay * accumulator[index] + (1.0 - decay) * g * g
            parameter[index] -= rate * g / math.sqrt(accumulator[index] + epsilon)
        new_parameters.append(parameter)
        new_accumulators.append(accumulator)
    return new_parameters, new_accumulators


def clip_components(gradients, limit=1.0):
    """Gradients with every component brought into [-limit, limit]."""
    clipped = []
    for gradient in gradients:
        gradient = np.array(gradient, dtype=np.float64)
        for index in np.ndindex(gradient.shape):
            if gradient[index] > limit:
                gradient[index] = limit
            elif gradient[index] < -limit:
                gradient[index] = -limit
        clipped.append(gradient)
    return clipped


def gradient_norm(gradients):
    """The Euclidean norm over all components of all tensors together."""
    total = 0.0
    for gradient in gradients:
        gradient = np.asarray(gradient, dtype=np.float64)
        for index in np.ndindex(gradient.shape):
            value = float(gradient[index])
            total += value * value
    return math.sqrt(total)


def clip_norm(gradients, limit=1.0):
    """Gradients scaled by limit / norm where their common norm exceeds limit."""
    norm = gradient_norm(gradients)
    factor = limit / norm if norm > limit else 1.0
    clipped = []
    for gradient in gradients:
        gradient = np.array(gradient, dtype=np.float64)
        for index in np.ndindex(gradient.shape):
            gradient[index] = gradient[index] * factor
        clipped.append(gradient)
    return clipped


def shrink_gradients(parameters, factor):
    """The gradients which take the place of broken ones: factor * parameter."""
    replaced = []
    for parameter in parameters:
        replacement = np.array(parameter, dtype=np.float64)
        for index in np.ndindex(replacement.shape):
            replacement[index] = factor * replacement[index]
        replaced.append(replacement)
    return replaced


def clip_norm_or_recover(gradients, parameters, limit=1.0, factor=0.1):
    """The gradients clipped by norm, or, where that norm is NaN or infinite, factor * parameter.

    One bad component replaces the whole gradient, and the replacement is not clipped. The factor
    is 0.1 on the copy tasks and 0.01 for the GRU language models.
    """
    if not math.isfinite(gradient_norm(gradients)):
        return shrink_gradients(parameters, factor)
    return clip_norm(gradients, limit)


def adam_step(
    parameters,
    gradients,
    first,
    second,
    step,
    rate=1e-3,
    beta1=0.9,
    beta2=0.999,
    epsilon=1e-8,
):
    """Parameters, first and second moments after Adam's update number step, counted from 1.

    Algorithm 1 of Kingma and Ba: both moments start at zero and are divided by 1 - beta^step, and
    the epsilon stands outside the root.
    """
    new_parameters = []
    new_first = []
    new_second = []
    for parameter, gradient, m, v in zip(parameters, gradients, first, second, strict=True):
        parameter = np.array(parameter, dtype=np.float64)
        gradient = np.asarray(gradient, dtype=np.float64)
        m = np.array(m, dtype=np.float64)
        v = np.array(v, dtype=np.float64)
        for index in np.ndindex(parameter.shape):
            g = gradient[index]
            m[index] = beta1 * m[index] + (1.0 - beta1) * g
            v[index] = beta2 * v[index] + (1.0 - beta2) * g * g
            m_hat = m[index] / (1.0 - beta1**step)
            v_hat = v[index] / (1.0 - beta2**step)
            parameter[index] -= rate * m_hat / (math.sqrt(v_hat) + epsilon)
        new_parameters.append(parameter)
        new_first.append(m)
        new_second.append(v)
    return new_parameters, new_first, new_second
