# An agent that calls a model repeatedly, in turn through the service and directly, and reports the median times to the
# first byte of the answer and to its end. It needs the host's network for the direct calls. On `print COUNT BYTES`, it
# sends COUNT updates of an unknown kind with BYTES each.
import http.client, json, os, re, statistics, sys, time, urllib.parse


def call(url, token):
    place = urllib.parse.urlsplit(url)
    connection = CONNECTIONS.setdefault(url, http.client.HTTPConnection(place.hostname, place.port))
    begun = time.perf_counter()
    connection.request("POST", "/v1/messages", BODY, {"content-type": "application/json", "x-api-key": token})
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    answer.read1(1)
    first = time.perf_counter()
    answer.read()
    return (first - begun) * 1000, (time.perf_counter() - begun) * 1000


def compare(count):
    through, direct = (os.environ["MODEL_URL"], os.environ["MODEL_TOKEN"]), (os.environ["DIRECT_URL"], "x")
    times = {target: [call(*target) for _ in range(20)] and [] for target in (through, direct)}
    for _ in range(count):
        for target, list_ in times.items():
            list_.append(call(*target))
    return {name: [statistics.median(one[place] for one in times[target]) for place in (0, 1)]
            for name, target in (("through", through), ("direct", direct))}


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def update(content):
    say({"method": "session/update", "params": {"sessionId": "s", "update": content}})


CONNECTIONS = {}
BODY = json.dumps({"model": "m", "stream": True, "max_tokens": 99, "messages": [
    {"role": "user", "content": "Add a test for the parser. " * 400}]})

for line in sys.stdin:
    message = json.loads(line)
    result = {}
    if message.get("method") == "initialize":
        result = {"protocolVersion": 1, "agentCapabilities": {}}
    elif message.get("method") == "session/new":
        result = {"sessionId": "s"}
    elif message.get("method") == "session/prompt":
        text = message["params"]["prompt"][0]["text"]
        if found := re.search(r"print (\d+) (\d+)", text):
            filler = "x" * int(found[2])
            for _ in range(int(found[1])):
                update({"sessionUpdate": "nothing_that_is_known", "text": filler})
        if found := re.search(r"compare (\d+)", text):
            update({"sessionUpdate": "agent_message_chunk",
                    "content": {"type": "text", "text": "measured " + json.dumps(compare(int(found[1])))}})
        result = {"stopReason": "end_turn"}
    if "id" in message:
        say({"id": message["id"], "result": result})
