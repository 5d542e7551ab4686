# shellcheck shell=sh
# Rails of soft-RoCE inside the VM, and what can go wrong with them: sourced.
#
# Rail i (from 1) is the interface e<i> with the address 10.77.0.<i> and the device rxe<i>. The other
# end of its cable is w<i>, a port of the bridge that joins them all. All addresses are this host's own,
# and the kernel would take every packet between them a short way that no cut cable could stop. So rules
# before its table of own addresses send a rail's packets out by its interface.

rail_address() {
    echo "10.77.0.$1"
}

# The hardware address of rail i: neighbours are written down and never asked for.
rail_link_address() {
    printf '02:00:00:00:77:%02x' "$1"
}

rail_route() {
    echo "route replace 10.77.0.0/24 dev e$1 src $(rail_address "$1") table $((200 + $1))"
    for other in $(seq "$rail_count"); do
        echo "neigh replace $(rail_address "$other") lladdr $(rail_link_address "$other") dev e$1 nud permanent"
    done
}

# make_rails COUNT
make_rails() {
    rail_count=$1
    [ "$rail_count" -gt 0 ] || return 0
    echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6
    for which in all default; do
        echo 0 >/proc/sys/net/ipv4/conf/$which/rp_filter
        echo 1 >/proc/sys/net/ipv4/conf/$which/accept_local
    done
    {
        # The MTU lets a packet carry 4096 bytes, the most that RoCE knows.
        echo "link add bridge0 type bridge"
        echo "link set bridge0 mtu 4200 up"
        for i in $(seq "$rail_count"); do
            echo "link add e$i address $(rail_link_address "$i") mtu 4200 type veth peer name w$i mtu 4200"
            echo "link set w$i master bridge0 up"
            echo "addr add $(rail_address "$i")/24 dev e$i"
            echo "link set e$i up"
            echo "rule add pref $((10 + i)) iif lo from $(rail_address "$i") to $(rail_address "$i") lookup local"
            echo "rule add pref $((100 + i)) iif lo from $(rail_address "$i") to 10.77.0.0/24 lookup $((200 + i))"
        done
        for i in $(seq "$rail_count"); do
            rail_route "$i"
        done
        echo "rule add pref 1000 lookup local"
        echo "rule del pref 0"
    } >"$TMPDIR/rails.ip"
    ip -batch "$TMPDIR/rails.ip" || return 1
    for i in $(seq "$rail_count"); do
        rdma link add "rxe$i" type rxe netdev "e$i" || return 1
    done
}

# What follows takes the number of a rail.
rail_cut() { ip link set "w$1" nomaster; } # silently: both ends stay up, what is sent is lost
rail_heal() { ip link set "w$1" master bridge0; }
rail_unplug() { ip link set "w$1" down; } # its card loses the carrier, and says that its port is down
rail_plug() { ip link set "w$1" up; }
# Its owner switches it off and on: routes vanish, every write fails at once. soft-RoCE (Linux 6.1) then
# answers the first message of its management queue pair without a route by an error of that whole queue
# pair; the kernel brings its sending half back and not the receiving one. A connection's end is such a
# message, also with rping; without a connection nothing happens. After that the device sends, hears no
# answer and connects no process, not even a fresh one (rail_connects). Its removal hangs in the kernel, so
# the rail cannot come back until the VM ends.
rail_down() { ip link set "e$1" down; }
rail_up() {
    rail_count=$(find /sys/class/net -name 'e[0-9]*' | wc -l)
    ip link set "e$1" up
    rail_route "$1" | ip -batch -
}

# rail_connects RAIL OTHER: whether a fresh process gets a connection over it.
rail_connects() {
    KVRAIL_PARTY_RAILS="$(rail_address "$1") $(rail_address "$2")" timeout $((5 * ${KVRAIL_PATIENCE:-1})) \
        "$KVRAIL_BUILD_DIR/tests/fabric.conformance_tcp" verbs an_address_can_be_inserted_twice
}

# Whatever a case left behind that can be undone.
rails_whole() {
    for end in /sys/class/net/w[0-9]*; do
        ip link set "${end##*/}" master bridge0 up
    done
}
