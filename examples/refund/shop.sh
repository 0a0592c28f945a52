#!/bin/sh
# The shop. `shop.sh ACTION` reads its arguments as JSON from standard input and looks into
# orders.csv. The schemas in interlock.yaml let nothing through that would need quoting here, and
# no more properties than these.
set -eu

fail() {
    echo "$1" >&2
    exit 1
}

arguments=$(cat)

# The value of one property; empty if it is anything else than letters, digits, blanks and dashes.
value() {
    printf '%s' "$arguments" | sed -n "s/.*\"$1\":\"\{0,1\}\([A-Za-z0-9 -]*\)\"\{0,1\}[,}].*/\1/p"
}

# Sets price, who and what.
find_order() {
    line=$(grep "^$1," orders.csv) || fail "there is no order $1"
    IFS=, read -r _ price who what <<END
$line
END
}

order=$(value order)
case $1 in
search)
    text=$(value text)
    grep -i -F -e "$text" orders.csv || echo "no order says $text"
    ;;
lookup)
    find_order "$order"
    echo "order $order: $what for $who, $price paid"
    ;;
refund)
    amount=$(value amount)
    [ -n "$amount" ] || fail "the amount must be a whole number"
    find_order "$order"
    [ "$amount" -le "$price" ] || fail "$amount is more than the $price that $who paid"
    echo "refunded $amount of $price to $who"
    ;;
*)
    fail "the shop does not know how to $1"
    ;;
esac
