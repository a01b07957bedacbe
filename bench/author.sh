# A small agent, like agent.sh, that changes a file and then sends the time at which its turn ends: `ended <seconds since
# 1970>`. The service commits the change.

say() { printf '%s\n' "$1"; }

while IFS= read -r line; do
    [[ $line =~ \"id\":(\"[^\"]*\"|[0-9]+) ]] && id=${BASH_REMATCH[1]} || id=null
    result='{}'
    case $line in
        *'"method":"initialize"'*) result='{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}' ;;
        *'"method":"session/new"'*|*'"method":"session/load"'*)
            [[ $line =~ \"cwd\":\"([^\"]*)\" ]] && cd "${BASH_REMATCH[1]}"
            result='{"sessionId":"s"}' ;;
        *'"method":"session/prompt"'*)
            echo "$EPOCHREALTIME" >> work.txt
            text='{"type":"text","text":"ended '"$EPOCHREALTIME"'"}'
            update='{"sessionUpdate":"agent_message_chunk","content":'"$text"'}'
            say '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'"$update"'}}'
            result='{"stopReason":"end_turn"}' ;;
        *'"method":"session/cancel"'*) continue ;;
    esac
    say '{"jsonrpc":"2.0","id":'"$id"',"result":'"$result"'}'
done
