# A copy= that is neither None nor a truth value is taken for one: "no" makes a copy.
import unittest, jax.numpy as jnp
with unittest.TestCase().assertRaises(Exception, msg="a wrong argument is to be refused"):
    jnp.ones(4).__dlpack__(copy="no")
