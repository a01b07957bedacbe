# A small agent with a minimal Agent Client Protocol: JSON-RPC on its standard streams, one message per line. When it is
# prompted, it immediately sends a message with the time, which gets out of any sandbox: `prompted <seconds since 1970>
# <time of its start>`. On `emit COUNT SECONDS`, it sends COUNT tool calls, one every SECONDS, titled with the time.
# It uses bash, which starts in 2 ms and reads the clock without another program.

started=$EPOCHREALTIME # identifies the process, because process IDs may be the same in every sandbox
say() { printf '%s\n' "$1"; }
update() {
    say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'"$1"'}}'
}

while IFS= read -r line; do
    now=$EPOCHREALTIME
    [[ $line =~ \"id\":(\"[^\"]*\"|[0-9]+) ]] && id=${BASH_REMATCH[1]} || id=null
    result='{}'
    case $line in
        *'"method":"initialize"'*) result='{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}' ;;
        *'"method":"session/new"'*) result='{"sessionId":"s"}' ;;
        *'"method":"session/prompt"'*)
            update '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"prompted '"$now $started"'\n"}}'
            if [[ $line =~ emit\ ([0-9]+)\ ([0-9.]+) ]]; then
                count=${BASH_REMATCH[1]} pause=${BASH_REMATCH[2]}
                # Sleep without another program: read from a pipe without a writer, with a timeout.
                exec 9<> <(:)
                for ((i = 1; i <= count; i++)); do
                    read -rt "$pause" -u 9
                    update '{"sessionUpdate":"tool_call","toolCallId":"'"$i"'","title":"at '"$EPOCHREALTIME"'"}'
                done
            fi
            result='{"stopReason":"end_turn"}' ;;
        *'"method":"session/cancel"'*) continue ;;
    esac
    say '{"jsonrpc":"2.0","id":'"$id"',"result":'"$result"'}'
done
