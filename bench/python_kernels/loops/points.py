"""Loops over points in space, for Numba."""
# mypy: allow-untyped-defs, allow-untyped-decorators

import math

import numba
import numpy as np

jit = numba.njit(parallel=True, fastmath=True)


@jit
def accelerations(bodies, result):
    """Sum the pull of all bodies, (x, y, z, mass) each, with G = 1; the 1e-2 keeps a distance of 0 finite."""
    for i in numba.prange(bodies.shape[0]):
        ax = ay = az = np.float32(0)
        for j in range(bodies.shape[0]):
            dx, dy, dz = bodies[j, 0] - bodies[i, 0], bodies[j, 1] - bodies[i, 1], bodies[j, 2] - bodies[i, 2]
            inverse_distance = np.float32(1) / math.sqrt(dx * dx + dy * dy + dz * dz + np.float32(1e-2))
            pull = bodies[j, 3] * inverse_distance * inverse_distance * inverse_distance
            ax, ay, az = ax + pull * dx, ay + pull * dy, az + pull * dz
        result[i, 0], result[i, 1], result[i, 2] = ax, ay, az


@jit
def nearest_centre(points, centres, numbers, distances):
    """Write the index of each point's nearest centre, the lowest of equally near ones, and the distance to it."""
    for i in numba.prange(points.shape[0]):
        least, best = np.float32(np.inf), 0
        for c in range(centres.shape[0]):
            distance = np.float32(0)
            for k in range(centres.shape[1]):
                distance += (points[i, k] - centres[c, k]) ** 2
            if distance < least:
                least, best = distance, c
        numbers[i], distances[i] = best, math.sqrt(least)
