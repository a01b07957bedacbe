#!/bin/sh
# Creates a job, or sends a message to one, and waits for its end. Runs in GitHub Actions and GitLab CI, with curl and jq.
# All inputs are environment variables, see inputs() below. Secrets are in no argument of a program and in no output.
#
# Exit codes: 0 done; 1 the request failed; 2 wrong input; 3 the job failed; 4 not permitted; 5 not found; 6 try again
# later; 7 conflict with the state of the job; 8 the time is up, and the job continues.

set -eu
umask 077

say() { printf 'journeyman: %s\n' "$(printf '%s' "$1" | tr '\000-\037\177' ' ')"; }

fail() { # code text
  say "$2" >&2
  exit "$1"
}

# Reads and checks the inputs.
inputs() {
  url=${JOURNEYMAN_URL:-} project=${JOURNEYMAN_PROJECT:-} job=${JOURNEYMAN_JOB:-}
  wait=${JOURNEYMAN_WAIT:-true} minutes=${JOURNEYMAN_TIMEOUT_MINUTES:-60} trust=${JOURNEYMAN_TRUST:-}
  while [ "${url%/}" != "$url" ]; do url=${url%/}; done
  case $url in
    http://* | https://*) ;;
    *) fail 2 "url: must be the http or https URL of the server, not '$url'" ;;
  esac
  case $url in
    *[!]A-Za-z0-9.:/_~@%+[-]*) fail 2 'url: has characters that the URL of a server cannot have' ;;
  esac
  case $project in
    '' | *[!a-z0-9-]*) fail 2 "project: must be the ID of a project, not '$project'" ;;
  esac
  case $job in
    *[!a-z0-9_]*) fail 2 "job: must be the ID of a job, such as job_019a..., not '$job'" ;;
  esac
  case $wait in
    true | false) ;;
    *) fail 2 "wait: must be true or false, not '$wait'" ;;
  esac
  case $minutes in
    '' | *[!0-9]* | ?????*) fail 2 "timeout-minutes: must be a number from 0 to 9999, not '$minutes'" ;;
  esac
  audience=${JOURNEYMAN_AUDIENCE:-$url}
  if [ -n "$job" ]; then
    for name in REF MODEL AGENT TITLE LABELS; do
      eval "given=\${JOURNEYMAN_$name:-}"
      [ -z "$given" ] || fail 2 "$(printf '%s' "$name" | tr A-Z a-z): is for new jobs; leave it out for a message to a job"
    done
  fi
}

# Writes the prompt to a file.
read_prompt() {
  if [ -n "${JOURNEYMAN_PROMPT_FILE:-}" ]; then
    [ -z "${JOURNEYMAN_PROMPT:-}" ] || fail 2 'give either prompt or prompt-file'
    [ -r "$JOURNEYMAN_PROMPT_FILE" ] || fail 2 "prompt-file: $JOURNEYMAN_PROMPT_FILE cannot be read"
    cat <"$JOURNEYMAN_PROMPT_FILE" >"$dir/prompt"
  else
    printf '%s' "${JOURNEYMAN_PROMPT:-}" >"$dir/prompt"
  fi
  [ -s "$dir/prompt" ] || fail 2 'prompt: is empty; set prompt or prompt-file'
}

# Writes a header with a credential to a configuration of curl, so that it is in no argument.
credential() { # file scheme value
  case $3 in
    '' | *[!A-Za-z0-9._~+/=-]*) fail 2 'the credential is empty or has characters that credentials cannot have' ;;
  esac
  printf 'header = "Authorization: %s %s"\n' "$2" "$3" >"$dir/$1"
}

mask() {
  if [ "${GITHUB_ACTIONS:-}" = true ]; then printf '::add-mask::%s\n' "$1"; fi
}

# Sends a request, and sets $status. The body of the answer is in $dir/answer.
send() { # config method url [file with a body] [idempotency key]
  : >"$dir/answer"
  : >"$dir/headers"
  set -- "$1" "$2" "$3" "${4:-}" "${5:-}"
  {
    cat "$dir/$1"
    printf 'header = "Accept: application/json"\n'
    if [ -n "$4" ]; then
      printf 'header = "Content-Type: application/json"\n'
      printf 'data-binary = "@%s"\n' "$dir/$4"
    fi
    if [ -n "$5" ]; then printf 'header = "Idempotency-Key: %s"\n' "$5"; fi
  } >"$dir/config"
  status=$(curl --silent --show-error --config "$dir/config" --request "$2" --connect-timeout 20 --max-time 100 \
    --globoff --proto '=http,https' --dump-header "$dir/headers" --output "$dir/answer" --write-out '%{http_code}' "$3" \
    2>"$dir/problem") || status=000
}

# Waits before the next attempt: as long as the server says, at most a minute, otherwise twice as long as before.
pause() { # attempt
  seconds=$(tr -d '\r' <"$dir/headers" | sed -n 's/^[Rr]etry-[Aa]fter: *\([0-9]\{1,4\}\)$/\1/p' | tail -n 1)
  seconds=${seconds:-$((1 << $1))}
  if [ "$seconds" -gt 60 ]; then seconds=60; fi
  sleep "$seconds"
}

# Describes the failed request.
problem() {
  if [ "$status" = 000 ]; then
    head -c 300 "$dir/problem"
  else
    text=$(jq -r '.error | strings' "$dir/answer" 2>/dev/null | head -c 1000) || text=
    printf '%s (status %s)' "${text:-the answer has no description}" "$status"
  fi
}

give_up() { # what
  text="$1: $(problem)"
  case $status in
    401 | 403) fail 4 "$text" ;;
    404) fail 5 "$text" ;;
    409 | 422) fail 7 "$text" ;;
    000 | 429 | 502 | 503 | 504) fail 6 "$text" ;;
    *) fail 1 "$text" ;;
  esac
}

# Sends a request until it is answered, at most 6 times.
persist() { # what config method url [body] [idempotency key]
  what=$1 attempt=0
  shift
  while :; do
    send "$@"
    attempt=$((attempt + 1))
    case $status in
      2??) return 0 ;;
      000 | 429 | 502 | 503 | 504) [ "$attempt" -lt 6 ] || give_up "$what" ;;
      *) return 1 ;;
    esac
    pause "$attempt"
  done
}

# Gets an OpenID token from the CI service, and writes it to a file.
id_token() {
  if [ -n "${JOURNEYMAN_ID_TOKEN:-}" ]; then
    printf '%s' "$JOURNEYMAN_ID_TOKEN" >"$dir/token"
    return
  fi
  if [ -z "${ACTIONS_ID_TOKEN_REQUEST_URL:-}" ] || [ -z "${ACTIONS_ID_TOKEN_REQUEST_TOKEN:-}" ]; then
    fail 4 'there is neither an API key nor an OpenID token; give the job "permissions: id-token: write", or set api-key'
  fi
  credential request bearer "$ACTIONS_ID_TOKEN_REQUEST_TOKEN"
  place=$(jq -rn --arg audience "$audience" '$audience | @uri')
  persist 'the CI service gives no token' request GET "$ACTIONS_ID_TOKEN_REQUEST_URL&audience=$place" ||
    give_up 'the CI service gives no token'
  jq -j '.value | strings' "$dir/answer" >"$dir/token"
  rm -f "$dir/answer"
  [ -s "$dir/token" ] || fail 1 'the answer of the CI service has no token'
  mask "$(cat "$dir/token")"
}

# Makes the configuration with a key that works for more than 5 minutes.
authenticate() {
  if [ -n "${JOURNEYMAN_API_KEY:-}" ]; then
    mask "$JOURNEYMAN_API_KEY"
    credential key Bearer "$JOURNEYMAN_API_KEY"
    return
  fi
  if [ -f "$dir/key" ] && [ $(($(date +%s) - exchanged_at)) -lt 600 ]; then return; fi
  id_token
  exchanged_at=$(date +%s)
  jq -Rs --arg trust "$trust" '{token: .} + if $trust == "" then {} else {trust: $trust} end' "$dir/token" >"$dir/exchange"
  : >"$dir/none"
  persist 'the token was not exchanged for a key' none POST "$url/v2/oidc/exchange" exchange ||
    give_up 'the token was not exchanged for a key'
  secret=$(jq -r '.secret | strings' "$dir/answer")
  rm -f "$dir/answer" "$dir/token" "$dir/exchange"
  mask "$secret"
  credential key Bearer "$secret"
  secret=
}

# Sends a request with the key. A read whose key has ended gets a new one.
call() { # what method url [body] [idempotency key]
  authenticate
  doing=$1
  shift
  if persist "$doing" key "$@"; then return; fi
  if [ "$status" = 401 ] && [ "$1" = GET ] && [ -z "${JOURNEYMAN_API_KEY:-}" ]; then
    rm -f "$dir/key"
    authenticate
    if persist "$doing" key "$@"; then return; fi
  fi
  give_up "$doing"
}

# Reads the record of the job from the answer.
read_record() {
  jq -e 'type == "object"' "$dir/answer" >/dev/null 2>&1 || fail 1 'the answer of the server is not a job'
  job=$(jq -r '.id | strings' "$dir/answer")
  state=$(jq -r '.status | strings' "$dir/answer")
  link=$(jq -r '.prLink | strings' "$dir/answer")
  case $job in '' | *[!a-z0-9_]*) fail 1 'the server sent a job without an ID' ;; esac
  case $state in '' | *[!a-z_]*) fail 1 'the server sent a job without a status' ;; esac
  # Links become outputs and Markdown.
  case $link in
    *[!A-Za-z0-9.:/_~@%+?=\&#,-]*) link= ;;
    http://* | https://*) ;;
    *) link= ;;
  esac
  page="$url/projects/$project/jobs/$job"
}

start() {
  key=$(od -An -N 16 -t x1 /dev/urandom | tr -d ' \n')
  if [ -n "$job" ]; then
    jq -Rs '{prompt: .}' "$dir/prompt" >"$dir/body"
    call 'the message was not sent' POST "$url/v2/agent/$project/job/$job/message" body "$key"
  else
    jq -Rs '
      def given($name): env["JOURNEYMAN_" + $name] // "" | select(. != "");
      {prompt: .}
      + ([{ref: given("REF")}, {model: given("MODEL")}, {agent: given("AGENT")}, {title: given("TITLE")}] | add // {})
      + ([given("LABELS") | split("[,\n]"; null)[] | gsub("^\\s+|\\s+$"; "") | select(. != "")]
         | if . == [] then {} else {labels: .} end)
    ' "$dir/prompt" >"$dir/body"
    call 'the job was not created' POST "$url/v2/agent/$project/job" body "$key"
  fi
  read_record
}

# Waits until the job is no longer active, or the time is up.
wait_for_end() {
  deadline=$(($(date +%s) + minutes * 60))
  while [ "$state" = active ]; do
    left=$((deadline - $(date +%s)))
    if [ "$left" -le 0 ]; then return; fi
    if [ "$left" -gt 30 ]; then left=30; fi
    call 'the job cannot be read' GET "$url/v2/agent/$project/job/$job?wait=$left"
    read_record
  done
}

# Prints why the job failed, or that the reason cannot be read.
reason() {
  authenticate
  send key GET "$url/v2/agent/$project/job/$job/details"
  text=
  if [ "$status" = 200 ]; then text=$(jq -r '.failure.text | strings' "$dir/answer" 2>/dev/null | head -c 1000) || text=; fi
  printf '%s' "${text:-the reason cannot be read}"
}

report() {
  if [ -n "${GITHUB_OUTPUT:-}" ]; then
    printf 'job-id=%s\nstatus=%s\npr-link=%s\njob-url=%s\n' "$job" "$state" "$link" "$page" >>"$GITHUB_OUTPUT"
  fi
  if [ -n "${JOURNEYMAN_DOTENV:-}" ]; then
    printf 'JOURNEYMAN_JOB_ID=%s\nJOURNEYMAN_STATUS=%s\nJOURNEYMAN_PR_LINK=%s\nJOURNEYMAN_JOB_URL=%s\n' \
      "$job" "$state" "$link" "$page" >"$JOURNEYMAN_DOTENV"
  fi
  if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
    {
      printf '### Journeyman\n\n'
      printf -- '- Job: [%s](%s), %s\n' "$job" "$page" "$state"
      if [ -n "$link" ]; then printf -- '- Pull request: <%s>\n' "$link"; fi
      printf '\n'
    } >>"$GITHUB_STEP_SUMMARY"
  fi
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
inputs
read_prompt
start
begun=$state
say "job $page is $state"
if [ "$wait" = true ]; then
  wait_for_end
  [ "$state" = "$begun" ] || say "job $job is $state"
  if [ -n "$link" ]; then say "pull request $link"; fi
fi
report
if [ "$wait" = true ]; then
  case $state in
    completed) ;;
    active) fail 8 "the job did not end within $minutes minutes; it continues, see $page" ;;
    *) fail 3 "the job ended as $state: $(reason); see $page" ;;
  esac
fi
