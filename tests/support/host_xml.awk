# Makes hwloc's XML of a host from a description that a person can check. A line of it:
#
#   node NUMBER CORES THREADS      a socket with its memory; CORES as 0-47,96-143: with 2 THREADS the
#                                  second half are the second threads of the first
#   host DOMAIN                    a host bridge of that socket: 0000
#   bridge ADDRESS                 a bridge of PCI
#   gpu|vga|card ADDRESS VENDOR:DEVICE GB/S [rdma=NAME] [net=NAME] [state=N]
#                                  a device, the speed of its slot; an RDMA device or an interface of
#                                  it; state 4 is an active port
#
# What is indented lies below what is not; # begins a comment.

function hex(bits, word,    k, half, high, low) {
    high = low = 0
    for (k = 0; k < 16; k++) {
        if ((word * 32 + k) in bits) low += 2 ^ k
        if ((word * 32 + 16 + k) in bits) high += 2 ^ k
    }
    return sprintf("0x%04x%04x", high, low)
}

function mask(bits,    word, last, k, text) {
    last = 0
    for (k in bits) if (int(k / 32) > last) last = int(k / 32)
    for (word = last; word >= 0; word--) text = text (word < last ? "," : "") hex(bits, word)
    return text
}

function single(bit,    bits) {
    bits[bit] = 1
    return mask(bits)
}

function open_object(attributes) {
    body = body sprintf("<object type=%s gp_index=\"%d\">\n", attributes, ++serial)
}

function close_to(depth) {
    while (open_count > depth) {
        body = body "</object>\n"
        open_count--
    }
}

function sets(cpus, nodes) {
    return sprintf("cpuset=\"%s\" complete_cpuset=\"%s\" nodeset=\"%s\" complete_nodeset=\"%s\"",
                   cpus, cpus, nodes, nodes)
}

function node(number, ranges, threads,    parts, ends, n, i, k, list, count, cpus, core, own) {
    n = split(ranges, parts, ",")
    for (i = 1; i <= n; i++) {
        if (split(parts[i], ends, "-") == 1) ends[2] = ends[1]
        for (k = ends[1] + 0; k <= ends[2] + 0; k++) {
            list[count++] = k
            cpus[k] = all_cpus[k] = 1
        }
    }
    all_nodes[number] = 1
    nodeset = single(number)
    open_object("\"Package\" os_index=\"" number "\" " sets(mask(cpus), nodeset))
    open_count = 1
    open_object("\"NUMANode\" os_index=\"" number "\" local_memory=\"1099511627776\" " \
                sets(mask(cpus), nodeset))
    body = body "</object>\n"
    for (i = 0; i < count / threads; i++) {
        split("", own)
        for (k = 0; k < threads; k++) own[list[i + k * count / threads]] = 1
        open_object("\"Core\" os_index=\"" core_number++ "\" " sets(mask(own), nodeset))
        for (k = 0; k < threads; k++) {
            core = list[i + k * count / threads]
            open_object("\"PU\" os_index=\"" core "\" " sets(single(core), nodeset))
            body = body "</object>\n"
        }
        body = body "</object>\n"
    }
}

function pci(address, class, ids, speed,    part) {
    split(ids, part, ":")
    return sprintf("pci_busid=\"%s\" pci_type=\"%s [%s:%s] [0000:0000] 00\" pci_link_speed=\"%s\"",
                   address, class, part[1], part[2], speed)
}

function os_device(name, type, state) {
    open_object("\"OSDev\" name=\"" name "\" osdev_type=\"" type "\"")
    if (state != "") body = body "<info name=\"Port1State\" value=\"" state "\"/>\n"
    body = body "</object>\n"
}

function device(class,    i, pair, options) {
    for (i = 5; i <= NF; i++) {
        split($i, pair, "=")
        options[pair[1]] = pair[2]
    }
    open_object("\"PCIDev\" " pci($2, class, $3, $4))
    open_count++
    if ("rdma" in options) os_device(options["rdma"], 3, options["state"])
    if ("net" in options) os_device(options["net"], 2, "")
}

BEGIN { serial = 1 }
{ sub(/#.*/, "") }
NF == 0 { next }
{
    match($0, /^ */)
    close_to($1 == "node" ? 0 : RLENGTH)
}
$1 == "node" { node($2, $3, $4); next }
$1 == "host" {
    open_object("\"Bridge\" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"" $2 ":[00-ff]\"")
    open_count++
    next
}
$1 == "bridge" {
    open_object("\"Bridge\" bridge_type=\"1-1\" depth=\"" RLENGTH "\" bridge_pci=\"0000:[01-ff]\" " \
                pci($2, "0604", "10b5:8796", "0"))
    open_count++
    next
}
$1 == "gpu" { device("0302"); next }
$1 == "vga" { device("0300"); next }
$1 == "card" { device("0200"); next }
{ print "line " NR ": " $0 > "/dev/stderr"; exit 1 }
END {
    close_to(0)
    cpus = mask(all_cpus)
    nodes = mask(all_nodes)
    print "<?xml version=\"1.0\" encoding=\"UTF-8\"?>"
    print "<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">"
    print "<topology version=\"2.0\">"
    print "<object type=\"Machine\" os_index=\"0\" " sets(cpus, nodes) " allowed_cpuset=\"" cpus \
          "\" allowed_nodeset=\"" nodes "\" gp_index=\"1\">"
    printf "%s", body
    print "</object>"
    print "</topology>"
}
