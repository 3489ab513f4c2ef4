# A max_version that is no pair of numbers is accepted.
import unittest, jax.numpy as jnp
with unittest.TestCase().assertRaises(Exception, msg="a wrong argument is to be refused"):
    jnp.ones(4).__dlpack__(max_version=(1,))
