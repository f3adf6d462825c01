import gymnasium as gym


def cart_pole():
    return gym.make("CartPole-v1", max_episode_steps=77)
