#!/bin/sh
# The world behind the doors. `world.sh ACTION` remembers what happened in files of its own for
# each instance of the workflow. The workflow says what may be tried when; this says what works.
set -eu
umask 077

fail() {
    echo "$1" >&2
    exit 1
}

case ${INTERLOCK_INSTANCE:-} in
'' | *[!A-Za-z0-9_-]*) fail "this world needs an instance with a plain name" ;;
esac

# Somebody else may have been here first, since anybody can write to such a folder.
worlds=${TMPDIR:-/tmp}/interlock-crossroads-$(id -u)
mkdir -m 700 "$worlds" 2>/dev/null || :
if [ -L "$worlds" ] || [ ! -d "$worlds" ] || [ ! -O "$worlds" ]; then
    fail "the folder of the worlds belongs to somebody else"
fi
world=$worlds/$INTERLOCK_INSTANCE
mkdir -p "$world"

# Each side has its own key.
case ${INTERLOCK_STATE:-} in
C_doorL | C_rollback_left) key=iron-7 ;;
*) key=brass-3 ;;
esac

case $1 in
open_door)
    if [ ! -e "$world/door-tried" ]; then
        : >"$world/door-tried"
        fail "the door is stuck"
    fi
    echo "the door opens"
    ;;
press_button)
    : >"$world/button-pressed"
    echo "something moves in the walls"
    ;;
choose_path)
    [ -e "$world/button-pressed" ] || fail "the way is blocked"
    echo "you stand before a locked door"
    ;;
pick_up_key)
    : >"$world/found-$key"
    printf '{"content": [{"type": "text", "text": "you pick up the key %s"}],' "$key"
    printf ' "structuredContent": {"key": "%s"}}\n' "$key"
    ;;
open_door_with_key)
    # Nothing but letters, digits and dashes gets through the schema.
    tried=$(sed -n 's/.*"key":"\([a-z0-9-]*\)".*/\1/p')
    [ -e "$world/found-$tried" ] || fail "you have no key $tried"
    [ "$tried" = "$key" ] || fail "the key $tried does not fit"
    rm -r "$world"
    rmdir "$worlds" 2>/dev/null || :
    echo "the last door opens"
    ;;
go_back)
    echo "you are back at the crossroads"
    ;;
*)
    fail "nobody can $1 in this world"
    ;;
esac
