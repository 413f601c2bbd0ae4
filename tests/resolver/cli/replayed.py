"""Print the responses of pywb for URLs of the collection `x` in this directory, a JSON object each.

The script runs in pywb's own environment, which does not contain this project.
"""

from __future__ import annotations

import base64
import importlib
import json
import sys

if __name__ == "__main__":
    importlib.import_module("gevent.monkey").patch_all()  # before all other imports that wait
    app = importlib.import_module("pywb.apps.frontendapp").FrontEndApp(config_file=None, custom_config={})
    client = importlib.import_module("werkzeug.test").Client(app)
    for url in sys.argv[1:]:
        answer = client.get(f"/x/21001231000000id_/{url}")
        body = base64.b64encode(answer.get_data()).decode()
        print(json.dumps({"url": url, "status": answer.status_code, "body": body}))
