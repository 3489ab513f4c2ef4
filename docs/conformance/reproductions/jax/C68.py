# jnp.from_dlpack(copy=False) does not pass copy=False on, so that a producer that has to copy does so.
import types, jax.numpy as jnp, numpy as np
asked = {}
producer = types.SimpleNamespace(
    __dlpack__=lambda **keywords: asked.update(keywords) or np.ones(4, "f4").__dlpack__(),
    __dlpack_device__=lambda: (1, 0),
)
jnp.from_dlpack(producer, copy=False)
assert asked.get("copy") is False, f"__dlpack__ is to be asked with copy=False, not with {asked}"
