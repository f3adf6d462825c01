"""Is no Python."""

def make_env(n_envs=1:
    return None
