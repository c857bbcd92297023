# In the guest: two cards (Soft-RoCE) on the two ends of a veth pair, then whatever the host asks for by files in /run/jobs:
# NAME.sh is run, beside what runs already; NAME.log is what it says, and then NAME.status its status. `end` ends it all.
export PATH=/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 HOME=/run/tmp TMPDIR=/run/tmp
cd /run/jobs || exit

# A card has but the first network namespace, so both ends are in it. What one end sends to the other's address would stay
# in the kernel, which has both: an address is local for what has arrived, and for all else behind the other end.
connect() {
  ip link set lo up &&
    sysctl -q -w net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 net.ipv4.conf.all.rp_filter=0 &&
    ip link add end1 type veth peer name end2 || return
  local here there
  for here in 1 2; do
    there=$((3 - here))
    sysctl -q -w "net.ipv4.conf.end$here.accept_local=1" "net.ipv4.conf.end$here.rp_filter=0" &&
      ip address add "10.1.0.$here/32" dev "end$here" &&
      ip link set "end$here" mtu 4500 up &&
      ip rule add pref 1 iif "end$here" lookup local &&
      ip route add "10.1.0.$there" dev "end$here" src "10.1.0.$here" table 100 || return
  done
  for here in 1 2; do
    there=$((3 - here))
    ip neighbour replace "10.1.0.$there" dev "end$here" lladdr "$(cat "/sys/class/net/end$there/address")" nud permanent &&
      rdma link add "card$here" type rxe netdev "end$here" || return
  done
  ip rule add pref 10 lookup 100 && ip rule add pref 20 lookup local && ip rule del pref 0
}

run() {
  bash "$1.sh" >"$1.log" 2>&1
  echo $? >"$1.status.new"
  mv "$1.status.new" "$1.status"
}

connect && touch connected
declare -A begun
# However the host ends, the guest does.
while [ ! -e end ] && [ ${SECONDS} -lt 1800 ]; do
  for file in *.sh; do
    name=${file%.sh}
    if [ "$name" = serve ] || [ -n "${begun[$name]:-}" ]; then continue; fi
    begun[$name]=yes
    run "$name" &
  done
  sleep 0.1
done
