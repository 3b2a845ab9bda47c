"""Ten seeds of the simulator: brokers and clients under faults, in virtual time. The same seed gives the same trace."""

from embedbroker.testing import Campaign, Moment, run_seed

campaign = Campaign()
for seed in range(1, 11):
    campaign.add(run_seed(seed))

print(f"{campaign.seeds} seeds, {len(campaign.failures)} failures")
print("brokers crashed:", campaign.hits[Moment.CRASH] > 0)
print("the same trace again:", run_seed(3).digest == campaign.digests[3])
