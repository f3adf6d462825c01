import gymnasium as gym


class Rails(gym.Wrapper):
    """CartPole, as a LeRobot env file would offer it."""

    task_description = "balance the pole on the cart"

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, terminated, truncated, {**info, "is_success": truncated}


def make_one():
    return Rails(gym.make("CartPole-v1", max_episode_steps=50))


def make_env(n_envs=1, use_async_envs=False):
    vector = gym.vector.AsyncVectorEnv if use_async_envs else gym.vector.SyncVectorEnv
    return vector([make_one for _ in range(n_envs)])
