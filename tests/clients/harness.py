"""Cases that print one line each; a suite ends by exiting 1 if any failed."""

import asyncio
import inspect
import os
import pathlib
import sys
import tempfile
import traceback

ADDRESS = os.environ["ADDRESS"]
HERE = pathlib.Path(__file__).parent
CASES = []


def case(function):
    CASES.append(function)
    return function


def order(name):
    """The path of the order process under a name of its own; its job types begin with that name."""
    folder = tempfile.mkdtemp(prefix="m87-clients-")
    path = pathlib.Path(folder, f"{name}.bpmn")
    path.write_text((HERE / "order.bpmn").read_text().replace("NAME", name))
    return str(path)


def main(suite):
    failed = 0

    async def bounded(function):
        async with asyncio.timeout(60):
            await function()

    for function in CASES:
        name = f"{suite}: {function.__name__}"
        try:
            if inspect.iscoroutinefunction(function):
                asyncio.run(bounded(function))
            else:
                function()
            print(f"ok      {name}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED  {name}", flush=True)
            traceback.print_exc()
    sys.exit(failed > 0)
