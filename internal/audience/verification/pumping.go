package verification

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"lksms/gen/verificationq"
	"lksms/internal/dispatch/caps"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/phone"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/setting"
)

// checkNumber returns a fault unless codes are sent to a phone number. Faults, which name field: request.invalid for a fixed line or a service number, and
// recipient.country_closed.
func (s *Service) checkNumber(ctx context.Context, companyID int64, to recipient, field string, v setting.Verification) error {
	if to.channel != directory.SMS {
		return nil
	}
	if !phone.GetsTexts(to.address) {
		return fault.InvalidField(field, fault.NotAMobile, nil)
	}
	home, err := s.Directory.DefaultRegion(ctx, &companyID)
	if err != nil {
		return err
	}
	rules, err := s.Directory.RecipientRules(ctx, companyID)
	if err != nil {
		return err
	}
	region := phone.Region(to.address)
	if region != "" && (region == cmp.Or(home, phone.Home) || slices.Contains(optional.Or(rules.VerificationCountries, v.Opened()), region)) {
		return nil
	}
	return &fault.Error{
		Kind: fault.Conflict, Reason: fault.RecipientCountryClosed, Fields: []fault.Field{{Name: field, Rule: fault.CountryClosed, Limit: region}},
	}
}

// watch contains what conversion is counted for. See verification_hours.
type watch struct {
	country  string   // of the number; empty: unknown
	prefixes []string // beginnings of the number
	network  string   // of the client; empty: unknown
	number   string   // empty on other channels than sms
}

// watchOf returns the subjects of a code.
func watchOf(to recipient, clientIP string) watch {
	if to.channel != directory.SMS {
		return watch{}
	}
	w := watch{country: phone.Region(to.address), network: networkOf(clientIP, watchedBits4, watchedBits6), number: to.address}
	code := len(phone.CountryCode(to.address))
	for _, length := range []int{code, code + 2, code + 4, len(to.address) - 6, len(to.address) - 5, len(to.address) - 4} {
		if length >= max(code, minPrefix) && length < len(to.address) && !slices.Contains(w.prefixes, to.address[:length]) {
			w.prefixes = append(w.prefixes, to.address[:length])
		}
	}
	return w
}

// minPrefix is the minimum length of a prefix: + and one digit.
const minPrefix = 2

// These are the bits of an address that make up the network of a client, whose conversion is counted.
const (
	watchedBits4 = 24
	watchedBits6 = 48
)

// networkOf returns the network of a client, with a number of bits for IPv4 and for IPv6. It returns an empty string if the address is unknown.
func networkOf(clientIP string, bits4, bits6 int) string {
	address, err := netip.ParseAddr(clientIP)
	if err != nil {
		return ""
	}
	address = address.Unmap().WithZone("")
	bits := bits6
	if address.Is4() {
		bits = bits4
	}
	network, _ := address.Prefix(bits) // fits the address
	return network.String()
}

// subjects returns the subjects that count a code, and limit codes: the prefixes, and the network.
func (w watch) subjects() []string {
	if w.network == "" {
		return w.prefixes
	}
	return append(slices.Clone(w.prefixes), w.network)
}

// neighbours returns the numbers of the same length that are at most 20 smaller or greater.
func (w watch) neighbours() (low, high string) {
	n, err := strconv.ParseInt(w.number[1:], 10, 64)
	if err != nil {
		return w.number, w.number
	}
	low, high = "+"+strconv.FormatInt(n-nearby, 10), "+"+strconv.FormatInt(n+nearby, 10)
	if len(low) < len(w.number) {
		low = w.number
	}
	if len(high) > len(w.number) {
		high = w.number
	}
	return low, high
}

const nearby = 20

// trust contains which subjects of a code are trusted.
type trust struct {
	proven, safe []string
	isIterated   bool // the number is one of many in a row whose codes are not approved
}

// Limit returns the limits of messages, which depend on what is trusted.
func (m *message) Limit(ctx context.Context, all []submit.Companion) ([]submit.Limit, error) {
	limits := make([]submit.Limit, len(all))
	var p verificationq.VerificationsTrustParams
	for i, c := range all {
		m := c.(*message)
		limits[i].Subjects = m.subjects
		if m.watch.number == "" || m.unprovenPerDay == 0 {
			continue
		}
		low, high := m.watch.neighbours()
		p.Indexes, p.CompanyIds, p.Recipients = append(p.Indexes, int32(i)), append(p.CompanyIds, m.origin.CompanyID), append(p.Recipients, m.watch.number)
		p.Lows, p.Highs, p.Subjects = append(p.Lows, low), append(p.Highs, high), append(p.Subjects, strings.Join(m.watch.subjects(), " "))
	}
	if len(p.Indexes) == 0 {
		return limits, nil
	}
	rows, err := m.service.q.VerificationsTrust(ctx, p)
	if err != nil {
		return nil, postgres.Wrap("read trust in codes", err, nil)
	}
	for _, row := range rows {
		l, m := &limits[row.CodeIndex], all[row.CodeIndex].(*message)
		more, err := m.suspect(trust{row.Proven, row.Safe, row.IsIterated})
		l.Subjects, l.Err = append(slices.Clone(l.Subjects), more...), err
	}
	return limits, nil
}

// suspect returns the subjects of a code that are neither proven nor safe, with their caps. A safe prefix of the number makes all subjects safe. Fault:
// recipient.suspected.
func (m *message) suspect(t trust) (suspected []caps.Subject, err error) {
	w := m.watch
	if slices.ContainsFunc(t.safe, func(subject string) bool { return subject != w.network }) {
		return nil, nil
	}
	if t.isIterated && !m.isResend {
		return nil, &fault.Error{Kind: fault.Conflict, Reason: fault.RecipientSuspected, Fields: []fault.Field{{Name: "phone_number", Rule: fault.IsSuspected}}}
	}
	for _, subject := range w.subjects() {
		if slices.Contains(t.proven, subject) || slices.Contains(t.safe, subject) {
			continue
		}
		field := "phone_number"
		if subject == w.network {
			field = "client_ip"
		}
		suspected = append(suspected, caps.Subject{Name: "unproven " + subject, Field: field, Caps: setting.Caps{PerDay: m.unprovenPerDay}, IsSuspicion: true})
	}
	return suspected, nil
}

// never is more than the number of codes that can be counted.
const never = 1 << 31

// Count counts the codes and the approvals since the last run, for each of their subjects, and derives which subjects are proven. It returns their number.
func (s *Service) Count(ctx context.Context) (int, error) {
	values, err := s.Settings.Get(ctx)
	if err != nil {
		return 0, err
	}
	suspectedFrom := cmp.Or(values.Verification.UnprovenPerDay, never)
	counted, err := postgres.InBatches(batchSize, func() (n int64, err error) {
		err = s.db.Tx(ctx, func(ctx context.Context) error {
			row, err := s.q.VerificationsCount(ctx, batchSize)
			if err != nil {
				return postgres.Wrap("count verifications", err, nil)
			}
			n = row.Counted
			if s.derivedFrom.Load() != suspectedFrom { // subjects have no row that reached a lower maximum before
				reached, err := s.q.VerificationSubjectsReached(ctx, suspectedFrom)
				if err != nil {
					return postgres.Wrap("read suspected subjects", err, nil)
				}
				row.CompanyIds, row.Subjects = append(row.CompanyIds, reached.CompanyIds...), append(row.Subjects, reached.Subjects...)
			}
			err = s.q.VerificationSubjectsDerive(ctx, verificationq.VerificationSubjectsDeriveParams{
				CompanyIds: row.CompanyIds, Subjects: row.Subjects, SuspectedFrom: suspectedFrom, Fresh: fresh,
			})
			return postgres.Wrap("derive proven subjects", err, nil)
		})
		if err == nil {
			s.derivedFrom.Store(suspectedFrom)
		}
		return n, err
	})
	if counted == 0 || err != nil {
		return counted, err
	}
	// Without VACUUM, the next runs would read the dead rows until autovacuum removes them, about a minute later.
	return counted, postgres.Wrap("vacuum counted verifications", s.db.Vacuum(ctx, "verification_hours_staged"), nil)
}

// fresh is the time after which a subject is derived again, because counts become older than 24 hours.
const fresh = 5 * time.Minute
