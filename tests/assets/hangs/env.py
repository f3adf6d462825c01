"""Never comes back."""

import time

print("waiting for the simulator")
time.sleep(3600)
