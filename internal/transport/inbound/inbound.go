// Package inbound converts posts of other programs to messages. A description defines where a body contains the phone numbers and the text.
package inbound

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"lksms/gen/inboundq"
	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/queue/submit"
	"lksms/internal/dispatch/template"
	"lksms/internal/platform/access"
	"lksms/internal/platform/fault"
	"lksms/internal/platform/optional"
	"lksms/internal/platform/postgres"
)

// Service stores inbounds and submits the messages that are posted to them.
type Service struct {
	db          *postgres.DB
	q           *inboundq.Queries
	submissions *submit.Service
	directory   *directory.Service
	templates   *template.Service
}

// New returns a Service on db.
func New(db *postgres.DB, submissions *submit.Service, directory *directory.Service, templates *template.Service) *Service {
	return &Service{db: db, q: inboundq.New(db), submissions: submissions, directory: directory, templates: templates}
}

// Settings contains the fields of an inbound that callers can change.
type Settings struct {
	Preset        string
	Description   *Description // replaces members of the preset's description; nil: replaces nothing
	PhoneNumbers  []string     // nil: the body contains the phone numbers
	MessageType   int16
	Priority      *int16
	TemplateNo    *string // nil: the description contains the text
	Sign          *string
	RepeatSeconds *int64
	IsTest        bool
	Status        string
}

var errNone = fault.New(fault.NotFound, fault.InboundNotFound)

// MessageType returns the default message type of an inbound with a preset.
func MessageType(ofPreset string) int16 { return presets[ofPreset].messageType }

// checked checks the settings of an inbound, normalises its numbers, and returns the stored form of its own description. `was` contains the previous settings,
// or is nil for a new inbound. Faults: request.invalid, template.not_active.
func (s *Service) checked(ctx context.Context, company int64, was, to *Settings) ([]byte, error) {
	known, isKnown := presets[to.Preset]
	if !isKnown {
		return nil, fault.InvalidField("preset", fault.NotAllowed, slices.Sorted(maps.Keys(presets)))
	}
	effective := known.description
	var own []byte
	if to.Description != nil {
		var err error
		if err := to.Description.check(); err != nil {
			return nil, err
		}
		if own, err = json.Marshal(to.Description); err != nil {
			return nil, fmt.Errorf("write description: %w", err)
		}
		effective = effective.over(*to.Description)
	}
	to.PhoneNumbers = slices.Clone(to.PhoneNumbers)
	var wrong fault.Fields
	for i, number := range to.PhoneNumbers {
		normal, err := s.directory.NormaliseNumber(ctx, &company, fmt.Sprint("phone_numbers.", i), &number)
		if err := wrong.Add(err); err != nil {
			return nil, err
		}
		to.PhoneNumbers[i] = optional.Value(normal)
	}
	if len(wrong) == 0 { // an invalid number is empty
		fault.RepeatedItems(&wrong, "phone_numbers", to.PhoneNumbers)
	}
	if err := wrong.Err(); err != nil {
		return nil, err //nolint:wrapcheck // the error is a fault
	}
	if to.PhoneNumbers == nil && !effective.hasNumber() {
		return nil, fault.InvalidField("phone_numbers", fault.Required, nil)
	}
	switch {
	case to.TemplateNo == nil && len(effective.Text) == 0:
		return nil, fault.InvalidField("description.text", fault.Required, nil)
	case to.TemplateNo == nil, was != nil && was.Preset == to.Preset && optional.Value(was.TemplateNo) == *to.TemplateNo &&
		reflect.DeepEqual(was.Description, to.Description):
		return own, nil // the template is unchanged: an inbound can be switched off even if its template is disabled
	}
	return own, s.checkTemplate(ctx, company, *to.TemplateNo, effective)
}

// checkTemplate returns a fault if a company cannot use a template, or if the parameters of the description and of the template differ.
func (s *Service) checkTemplate(ctx context.Context, company int64, no string, d Description) error {
	t, err := s.templates.Find(ctx, company, no)
	if err != nil {
		return err
	}
	all := &fault.Error{Kind: fault.Invalid, Reason: fault.RequestInvalid}
	differ := func(rule fault.Rule, names, known []string) {
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(known, name) })
		if len(names) > 0 {
			all.Fields = append(all.Fields, fault.Field{Name: "description.params", Rule: rule, Limit: strings.Join(names, ", ")})
		}
	}
	params := slices.Sorted(maps.Keys(d.Params))
	differ(fault.MissingParameters, t.Names(), params)
	differ(fault.UnknownParameters, params, t.Names())
	if len(all.Fields) > 0 {
		return all
	}
	return nil
}

// Create adds an inbound to a company. If companyNo is nil, it adds the inbound to the default company. Faults: exists, limit.reached, request.invalid,
// template.not_active.
func (s *Service) Create(ctx context.Context, no string, companyNo *string, to Settings) (row Row, err error) {
	company := access.DefaultCompany
	if companyNo != nil {
		if company, err = s.q.InboundCompany(ctx, *companyNo); err != nil {
			return row, postgres.Wrap("find company", err, fault.InvalidField("company_no", fault.NotThere, nil))
		}
	}
	own, err := s.checked(ctx, company, nil, &to)
	if err != nil {
		return row, err
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		_, err := s.q.InboundCreate(ctx, inboundq.InboundCreateParams{
			InboundNo: no, CompanyID: company, Preset: to.Preset, Description: own, PhoneNumbers: to.PhoneNumbers, MessageType: to.MessageType,
			Priority: to.Priority, TemplateNo: to.TemplateNo, Sign: to.Sign, RepeatSeconds: to.RepeatSeconds, IsTest: to.IsTest, Status: to.Status,
		})
		switch {
		case postgres.Violates(err, "inbounds_inbound_no_key"):
			return fault.New(fault.Conflict, fault.Exists)
		case postgres.Violates(err, "inbounds_company_id_fkey"): // the company was deleted meanwhile
			return fault.InvalidField("company_no", fault.NotThere, nil)
		case err != nil:
			return postgres.Wrap("create inbound", err, nil)
		}
		row, err = s.Get(ctx, nil, no)
		return err
	})
	return row, err
}

// Get returns an inbound, or the fault inbound.not_found. If company is non-nil, Get finds only inbounds of this company.
func (s *Service) Get(ctx context.Context, company *int64, no string) (Row, error) {
	rows, err := s.q.InboundList(ctx, inboundq.InboundListParams{BeforeID: math.MaxInt64, InboundNo: &no, CompanyID: company, PageLimit: 1})
	return postgres.One(rows, err, "get inbound", error(errNone))
}

// List returns up to limit inbounds with ids smaller than `before`, newest first. If company is non-nil, the list contains only inbounds of this company.
func (s *Service) List(ctx context.Context, company *int64, before int64, limit int) ([]Row, error) {
	rows, err := s.q.InboundList(ctx, inboundq.InboundListParams{BeforeID: before, CompanyID: company, PageLimit: int32(limit)})
	return rows, postgres.Wrap("list inbounds", err, nil)
}

// Update applies change to an inbound. If version is non-nil, the inbound must have this version. Faults: inbound.not_found, version.stale, request.invalid,
// template.not_active.
func (s *Service) Update(ctx context.Context, no string, version *int64, change func(*Settings)) (row Row, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		read := func() (Row, error) { return s.Get(ctx, nil, no) }
		row, err = postgres.Patch(version, read, func(r Row) int64 { return r.Version }, func(was Row) (int64, error) {
			before, err := settingsOf(was)
			if err != nil {
				return 0, err
			}
			to := before
			change(&to)
			own, err := s.checked(ctx, was.CompanyID, &before, &to)
			if err != nil {
				return 0, err
			}
			n, err := s.q.InboundUpdate(ctx, inboundq.InboundUpdateParams{
				InboundNo: no, Version: was.Version, Preset: to.Preset, Description: own, PhoneNumbers: to.PhoneNumbers, MessageType: to.MessageType,
				Priority: to.Priority, TemplateNo: to.TemplateNo, Sign: to.Sign, RepeatSeconds: to.RepeatSeconds, IsTest: to.IsTest, Status: to.Status,
			})
			return n, postgres.Wrap("update inbound", err, nil)
		})
		return err
	})
	return row, err
}

func settingsOf(row Row) (Settings, error) {
	to := Settings{
		Preset: row.Preset, PhoneNumbers: row.PhoneNumbers, MessageType: row.MessageType, Priority: row.Priority, TemplateNo: row.TemplateNo,
		Sign: row.Sign, RepeatSeconds: row.RepeatSeconds, IsTest: row.IsTest, Status: row.Status,
	}
	if row.Description != nil {
		if err := json.Unmarshal(row.Description, &to.Description); err != nil {
			return to, fmt.Errorf("read description: %w", err)
		}
	}
	return to, nil
}

// Delete deletes an inbound. Fault: inbound.not_found.
func (s *Service) Delete(ctx context.Context, no string) error {
	n, err := s.q.InboundDelete(ctx, no)
	return postgres.DeletedOne(n, err, "delete inbound", errNone)
}

// isExpected reports whether err was caused by the caller and not by the server.
func isExpected(err error) bool {
	var expected *fault.Error
	return errors.As(err, &expected) && expected.Kind != fault.Internal && expected.Kind != fault.Unavailable
}
