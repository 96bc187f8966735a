package consul

import (
	"context"
	"encoding/hex"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"

	"conclave/wire/admit"
	"conclave/wire/serve"
)

// DNS answers A, AAAA and SRV for services, as Consul does (docs/consul.md). miekg/dns
// has the wire format, the truncation of answers over UDP, and the framing over TCP.
type DNS struct {
	Config
	lists  *lists
	places *admit.Budget // of questions
}

// Limits of questions.
const (
	dnsAtOnce = 1024
	dnsEach   = 256 // of one host
	dnsWait   = 2 * time.Second
	udpMost   = 1232 // bytes of an answer over UDP, whose question may come from elsewhere
	dnsDomain = "consul."
)

// Serve answers questions until ctx ends. packets may be nil.
func (d *DNS) Serve(ctx context.Context, streams net.Listener, packets net.PacketConn) error {
	servers := []*dns.Server{{Listener: streams, Handler: d, DecorateReader: func(r dns.Reader) dns.Reader { return timely{r} }}}
	if packets != nil {
		servers = append(servers, &dns.Server{PacketConn: packets, Handler: d})
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, s := range servers {
		started := make(chan struct{})
		s.NotifyStartedFunc = sync.OnceFunc(func() { close(started) })
		group.Go(func() error {
			defer s.NotifyStartedFunc() // it may have failed before
			return s.ActivateAndServe()
		})
		group.Go(func() error {
			<-started // it cannot be stopped before
			<-ctx.Done()
			limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), dnsWait)
			defer cancel()
			_ = s.ShutdownContext(limited) // of one that has failed, or whose clients read nothing
			return nil
		})
	}
	return group.Wait()
}

// timely gives up clients that do not read: miekg/dns has no limit of time for an answer.
type timely struct{ dns.Reader }

// ReadTCP implements dns.Reader. The answer is sent before the next question is read.
func (r timely) ReadTCP(conn net.Conn, limit time.Duration) ([]byte, error) {
	question, err := r.Reader.ReadTCP(conn, limit)
	_ = conn.SetWriteDeadline(time.Now().Add(2 * dnsWait))
	return question, err
}

// ServeDNS implements dns.Handler.
func (d *DNS) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	out := new(dns.Msg).SetReply(q)
	c := serve.Caller{Address: "dns/" + serve.HostOf(w.RemoteAddr().String()), Name: "dns"} // which may be forged: it delays no other clients of that host
	if out.Rcode = dns.RcodeServerFailure; d.places.Try(c.Host(), 1) {
		defer d.places.Release(c.Host(), 1)
		ctx, cancel := context.WithTimeout(context.Background(), dnsWait)
		defer cancel()
		d.answer(ctx, c, out)
	}
	size := dns.MinMsgSize
	if opt := q.IsEdns0(); opt != nil {
		size = max(size, min(int(opt.UDPSize()), udpMost))
		out.SetEdns0(uint16(size), false)
	}
	if _, tcp := w.RemoteAddr().(*net.TCPAddr); tcp {
		size = dns.MaxMsgSize
	}
	out.Truncate(size)
	if w.WriteMsg(out) != nil {
		_ = w.Close() // the client has gone, or reads nothing
	}
}

// answer answers the question of out.
func (d *DNS) answer(ctx context.Context, c serve.Caller, out *dns.Msg) {
	if len(out.Question) != 1 || out.Question[0].Qclass != dns.ClassINET || !dns.IsSubDomain(dnsDomain, out.Question[0].Name) {
		out.Rcode = dns.RcodeRefused
		return
	}
	question, labels := out.Question[0], dns.SplitDomainName(out.Question[0].Name)
	last := len(labels) - 2 // before the domain
	if last >= 0 && strings.EqualFold(labels[last], d.DataCenter) {
		last--
	}
	out.Authoritative, out.Rcode = true, dns.RcodeNameError
	switch {
	case last < 0:
		out.Rcode = dns.RcodeSuccess
	case last == 1 && strings.EqualFold(labels[last], "addr"):
		d.answerAddress(out, question, labels[0])
	case last > 0 && strings.EqualFold(labels[last], "service"):
		d.answerService(ctx, c, out, question, labels[:last])
	}
	if len(out.Answer) == 0 {
		out.Ns = append(out.Ns, &dns.SOA{
			Hdr: header(dnsDomain, dns.TypeSOA), Ns: "ns." + dnsDomain, Mbox: "hostmaster." + dnsDomain, Serial: uint32(d.Now().Unix()), Refresh: 3600, Retry: 600, Expire: 86400,
		})
	}
}

// answerAddress answers for the name of an address, such as 0a000001.addr.consul, which
// is the target of a service's SRV record.
func (d *DNS) answerAddress(out *dns.Msg, question dns.Question, text string) {
	bytes, err := hex.DecodeString(text)
	ip, ok := netip.AddrFromSlice(bytes)
	if err != nil || !ok {
		return
	}
	out.Rcode = dns.RcodeSuccess
	if rr := record(question.Name, ip); rr.Header().Rrtype == question.Qtype {
		out.Answer = append(out.Answer, rr)
	}
}

// answerService answers for a service: by its name as it is asked for, or else in lower
// case, as some resolvers change the case of what they ask for.
func (d *DNS) answerService(ctx context.Context, c serve.Caller, out *dns.Msg, question dns.Question, labels []string) {
	q := query{name: labels[len(labels)-1], tags: labels[:len(labels)-1], without: []string{critical}}
	if proto, ok := strings.CutPrefix(q.name, "_"); ok && len(labels) == 2 { // _NAME._tcp, or _NAME._TAG
		q.name = strings.TrimPrefix(labels[0], "_")
		if q.tags = nil; !strings.EqualFold(proto, "tcp") && !strings.EqualFold(proto, "udp") {
			q.tags = []string{proto}
		}
	}
	if checkName(q.name) != nil {
		return
	}
	found, _, err := d.lists.instances(ctx, c, q)
	if lower := strings.ToLower(q.name); err == nil && len(found) == 0 && lower != q.name {
		q.name = lower
		found, _, err = d.lists.instances(ctx, c, q)
	}
	if err != nil {
		out.Rcode = dns.RcodeServerFailure
		return
	}
	rand.Shuffle(len(found), func(i, j int) { found[i], found[j] = found[j], found[i] })
	seen := map[string]bool{} // an address once, whatever its ports
	for _, in := range found {
		out.Rcode = dns.RcodeSuccess
		ip, err := netip.ParseAddr(in.Host)
		target := dns.Fqdn(in.Host)
		if err == nil {
			target = hex.EncodeToString(ip.AsSlice()) + ".addr." + d.DataCenter + "." + dnsDomain
		}
		switch rr := record(question.Name, ip); {
		case question.Qtype == dns.TypeSRV:
			out.Answer = append(out.Answer, &dns.SRV{Hdr: header(question.Name, dns.TypeSRV), Priority: 1, Weight: uint16(min(max(in.weights().Passing, 0), 65535)), Port: uint16(in.Port), Target: target})
			if err == nil {
				out.Extra = append(out.Extra, record(target, ip))
			}
		case err == nil && rr.Header().Rrtype == question.Qtype && !seen[in.Host]:
			out.Answer = append(out.Answer, rr)
		case err != nil && len(found) == 1 && question.Qtype != dns.TypeTXT: // there is no address beside an alias
			out.Answer = append(out.Answer, &dns.CNAME{Hdr: header(question.Name, dns.TypeCNAME), Target: target})
		}
		seen[in.Host] = true
	}
}

func header(name string, kind uint16) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: kind, Class: dns.ClassINET}
}

// record returns the record of an address.
func record(name string, ip netip.Addr) dns.RR {
	if ip = ip.Unmap(); ip.Is4() {
		return &dns.A{Hdr: header(name, dns.TypeA), A: ip.AsSlice()}
	}
	return &dns.AAAA{Hdr: header(name, dns.TypeAAAA), AAAA: ip.AsSlice()}
}
