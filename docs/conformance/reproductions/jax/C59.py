# jnp.from_dlpack asks for unversioned capsules alone, which cannot say that an array is read-only.
import types, jax.numpy as jnp, numpy as np
asked = {}
producer = types.SimpleNamespace(
    __dlpack__=lambda **keywords: asked.update(keywords) or np.ones(4, "f4").__dlpack__(),
    __dlpack_device__=lambda: (1, 0),
)
jnp.from_dlpack(producer)
assert (asked.get("max_version") or (0, 0)) >= (1, 0), f"max_version is to be (1, 0) or more: {asked}"
