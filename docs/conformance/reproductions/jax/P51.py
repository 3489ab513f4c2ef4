# A dl_device that there is not (kDLCUDA, without a GPU) raises RuntimeError, where the array API has BufferError.
import unittest, jax.numpy as jnp
with unittest.TestCase().assertRaises(BufferError):
    jnp.ones(4).__dlpack__(dl_device=(2, 0))
