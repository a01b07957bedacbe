# A small agent that speaks just enough of the Agent Client Protocol: JSON-RPC, a message a line, on standard streams.
# When it is prompted it says the time at once, in its message: `prompted <seconds since 1970> <when it was started>`. So the
# time comes out of any sandbox. Asked to `emit COUNT SECONDS`, it makes COUNT tool calls, one each SECONDS, named by the time.
# bash, because it starts in 2 ms, and has a clock without starting a program.

started=$EPOCHREALTIME # names the process: numbers of processes may be the same in every sandbox
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
                # Sleeping without starting a program: a read, with a time-out, of a pipe into which nobody writes.
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
