# jnp.from_dlpack of an object without __dlpack__ raises TypeError, where the array API has AttributeError.
import unittest, jax.numpy as jnp
with unittest.TestCase().assertRaises(AttributeError):
    jnp.from_dlpack(object())
