# A consumer that names DLPack 1.0 or later gets an unversioned capsule all the same, without flags.
import jax.numpy as jnp
capsule = jnp.ones(4).__dlpack__(max_version=(1, 3))
assert '"dltensor_versioned"' in repr(capsule), f"{capsule} should be a dltensor_versioned"
