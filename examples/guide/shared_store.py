"""A primary and its backup on one directory: failover, and back again when the primary
returns.
"""

import tempfile

import trio

from embedbroker import EmbeddedBroker, Role, SharedStoreBackup, SharedStorePrimary


async def main(directory: str) -> None:
    primary = EmbeddedBroker(
        name="primary", data_directory=directory, ha_policy=SharedStorePrimary()
    )
    backup = EmbeddedBroker(
        name="backup", data_directory=directory, ha_policy=SharedStoreBackup()
    )
    async with primary, backup:
        print(primary.role.value, backup.role.value, primary.node_id == backup.node_id)
        await primary.crash()
        await backup.wait_for_role(Role.LIVE)
        print(primary.role.value, backup.role.value)
        await primary.start()  # returns when the backup has given way
        await backup.wait_for_role(Role.BACKUP)
        print(primary.role.value, backup.role.value)
        await primary.stop()  # an orderly stop is no failover ...
        print(primary.role.value, backup.role.value)
        await primary.start()
        await primary.stop(failover=True)  # ... unless it is asked for
        await backup.wait_for_role(Role.LIVE)
        print(primary.role.value, backup.role.value)


with tempfile.TemporaryDirectory() as directory:
    trio.run(main, directory)
