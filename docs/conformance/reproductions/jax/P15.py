# An array that cannot be exported is refused with JaxRuntimeError, where the array API has BufferError.
import unittest, jax.numpy as jnp
with unittest.TestCase().assertRaises(BufferError):
    jnp.ones(4, jnp.int2).__dlpack__()
