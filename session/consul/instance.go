package consul

import (
	"cmp"
	"encoding/json"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"conclave/wire"
)

// The statuses of a check, from the best to the worst.
const (
	passing  = "passing"
	warning  = "warning"
	critical = "critical"
)

// statuses are all ways to name one.
var statuses = map[string]string{passing: passing, "pass": passing, warning: warning, "warn": warning, critical: critical, "fail": critical}

func statusOf(text string) (string, error) {
	if status := statuses[text]; status != "" {
		return status, nil
	}
	return "", wire.Errorf(wire.CodeBadRequest, "status %.20q: want passing, warning or critical", text)
}

// Instance is one address of a service, as a value has it:
//
//	HOST:PORT
//	HOST:PORT {"id": "web-1", "tags": ["v2"], ...}
//	critical HOST:PORT {...}
//
// So a subscriber that knows nothing of this package reads a plain address if there is
// no more to say, finds it before the first space if there is, and finds none where it
// should send nothing.
type Instance struct {
	Service string `json:"-"`
	Host    string `json:"-"`
	Port    int    `json:"-"`

	ID          string             `json:"id,omitempty"` // if it is not defaultID
	Tags        []string           `json:"tags,omitempty"`
	Meta        map[string]string  `json:"meta,omitempty"`
	Addresses   map[string]address `json:"addresses,omitempty"` // Consul's TaggedAddresses
	Weights     *weights           `json:"weights,omitempty"`
	CheckID     string             `json:"checkId,omitempty"` // if it is not service:ID
	CheckName   string             `json:"checkName,omitempty"`
	Status      string             `json:"status,omitempty"`      // of its check, if its value does not show it otherwise
	Output      string             `json:"output,omitempty"`      // of a check that does not pass
	Maintenance string             `json:"maintenance,omitempty"` // why it is in maintenance; critical then
}

type (
	address struct {
		Address string
		Port    int
	}
	weights struct{ Passing, Warning int }
)

const nameMost = 255 // bytes of an id, or of the name of a host

// criticalPrefix begins the value of an instance to which nothing should be sent.
const criticalPrefix = critical + " "

// defaultID is the id of an instance whose value has none.
func defaultID(service, host string, port int) string {
	return service + "-" + host + "-" + strconv.Itoa(port)
}

// Parse returns the instance of a value, and false if the value is no address.
func Parse(service, value string) (in Instance, ok bool) {
	text, isCritical := strings.CutPrefix(value, criticalPrefix)
	hostPort, more, has := strings.Cut(text, " ")
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil || !isHost(host) {
		return in, false
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || has && json.Unmarshal([]byte(more), &in) != nil {
		return in, false
	}
	in.Service, in.Host, in.Port = service, host, int(number)
	in.ID = cmp.Or(in.ID, defaultID(service, host, in.Port))
	if isCritical && in.Maintenance == "" {
		in.Status = critical
	}
	if in.Status != warning && in.Status != critical {
		in.Status = passing
	}
	return in, true
}

// isHost reports whether a text is an IP address, or may be the name of a host.
func isHost(text string) bool {
	_, err := netip.ParseAddr(text)
	isName := !strings.Contains(text, ":")
	return text != "" && len(text) <= nameMost && (err == nil || isName) && !strings.ContainsAny(text, " /\\?#@[]") && !strings.ContainsFunc(text, unicode.IsControl)
}

// Value returns the value of an instance.
func (in Instance) Value() string {
	out, more := in.address(), in
	if more.ID == defaultID(in.Service, in.Host, in.Port) {
		more.ID = ""
	}
	if more.Status == passing || more.Status == critical && more.Maintenance == "" {
		more.Status = "" // as it is shown without
	}
	text, err := json.Marshal(more) // of strings and numbers
	if err == nil && string(text) != "{}" {
		out += " " + string(text)
	}
	if in.health() == critical {
		out = criticalPrefix + out
	}
	return out
}

// address returns the address that begins the value.
func (in Instance) address() string { return net.JoinHostPort(in.Host, strconv.Itoa(in.Port)) }

// rank orders the statuses, the best first.
func rank(status string) int { return slices.Index([]string{passing, warning, critical}, status) }

// health returns the worst status of its checks.
func (in Instance) health() string {
	if in.Maintenance != "" {
		return critical
	}
	return in.Status
}

func (in Instance) checkID() string { return cmp.Or(in.CheckID, "service:"+in.ID) }

// object is how Consul shows something.
type object = map[string]any

// node shows the host of an instance.
func (in Instance) node(dataCenter string, index uint64) object {
	return object{
		"ID": "", "Node": in.Host, "Address": in.Host, "Datacenter": dataCenter, "TaggedAddresses": object{"lan": in.Host, "wan": in.Host}, "Meta": object{},
		"CreateIndex": index, "ModifyIndex": index,
	}
}

func (in Instance) service(dataCenter string, index uint64) object {
	out := object{
		"ID": in.ID, "Service": in.Service, "Address": in.Host, "Port": in.Port, "Tags": append([]string{}, in.Tags...), "Meta": in.Meta,
		"TaggedAddresses": in.Addresses, "Weights": in.weights(), "EnableTagOverride": false, "Datacenter": dataCenter, "CreateIndex": index, "ModifyIndex": index,
	}
	if in.Meta == nil { // clients expect objects
		out["Meta"] = object{}
	}
	if in.Addresses == nil {
		out["TaggedAddresses"] = object{}
	}
	return out
}

func (in Instance) weights() weights {
	if in.Weights != nil {
		return *in.Weights
	}
	return weights{1, 1}
}

// checks shows the checks of an instance: that of its lease, and that of its maintenance.
func (in Instance) checks(index uint64) []object {
	show := func(id, name, status, notes, output, kind string) object {
		return object{
			"Node": in.Host, "CheckID": id, "Name": name, "Status": status, "Notes": notes, "Output": output, "ServiceID": in.ID, "ServiceName": in.Service,
			"ServiceTags": append([]string{}, in.Tags...), "Type": kind, "CreateIndex": index, "ModifyIndex": index,
		}
	}
	out := []object{show(in.checkID(), cmp.Or(in.CheckName, "Service '"+in.Service+"' check"), in.Status, "", in.Output, "ttl")}
	if in.Maintenance != "" {
		out = append(out, show("_service_maintenance:"+in.ID, "Service Maintenance Mode", critical, in.Maintenance, "", "maintenance"))
	}
	return out
}

// inHealth shows an instance with its node and its checks.
func (in Instance) inHealth(dataCenter string, index uint64) object {
	return object{"Node": in.node(dataCenter, index), "Service": in.service(dataCenter, index), "Checks": in.checks(index)}
}

// inCatalog shows an instance and its node in one.
func (in Instance) inCatalog(dataCenter string, index uint64) object {
	out, s := in.node(dataCenter, index), in.service(dataCenter, index)
	out["NodeMeta"], out["ServiceName"] = out["Meta"], s["Service"]
	delete(out, "Meta")
	for _, name := range []string{"ID", "Tags", "Address", "TaggedAddresses", "Meta", "Port", "Weights", "EnableTagOverride"} {
		out["Service"+name] = s[name]
	}
	return out
}
