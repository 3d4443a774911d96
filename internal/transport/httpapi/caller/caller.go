// Package caller decides which data the caller of an operation can read, and which resources the caller can name.
package caller

import (
	"context"

	"lksms/internal/dispatch/directory"
	"lksms/internal/dispatch/queue/task"
	"lksms/internal/dispatch/sender"
	"lksms/internal/platform/access"
	"lksms/internal/platform/fault"
	"lksms/internal/transport/httpapi/gate"
)

// Viewer describes which tasks and notifications the caller can read. A caller of a company can read the tasks and notifications of its company. Any other
// caller can read the tasks and notifications of all companies. A caller with the role submit can read only its own tasks and notifications.
func Viewer(ctx context.Context) task.Viewer {
	seen := task.Viewer{CompanyID: OwnCompany(ctx)}
	if who := gate.Of(ctx).Caller.User; who.Role == access.RoleSubmit {
		seen.Owner = &who.Username
	}
	return seen
}

// OwnCompany returns the only company whose data the caller can read. It returns nil if the caller can read all companies.
func OwnCompany(ctx context.Context) *int64 {
	if who := gate.Of(ctx).Caller.User; !who.SeesAll {
		return &who.CompanyID
	}
	return nil
}

// Scope checks whether a caller can use the companies, senders and apps that its request names.
type Scope struct {
	directory *directory.Service
	senders   *sender.Service
}

// NewScope returns a Scope that looks up companies in dir and senders in senders.
func NewScope(dir *directory.Service, senders *sender.Service) *Scope { return &Scope{dir, senders} }

// OwnCompanyNo returns the number of OwnCompany.
func (s *Scope) OwnCompanyNo(ctx context.Context) (*string, error) {
	own := OwnCompany(ctx)
	if own == nil {
		return nil, nil
	}
	no, err := s.directory.CompanyNo(ctx, *own)
	return &no, err
}

// CompanyID returns the id of the company with number no. If no is nil, it returns the id of the caller's company. Fault: auth.other_company.
func (s *Scope) CompanyID(ctx context.Context, no *string) (int64, error) {
	who := gate.Of(ctx).Caller.User
	if no == nil {
		return who.CompanyID, nil
	}
	if own := OwnCompany(ctx); own != nil {
		return *own, s.RequireCompany(ctx, no)
	}
	row, err := s.directory.GetCompany(ctx, *no)
	return row.ID, err
}

// RequireCompany rejects any company but the caller's own, without revealing whether the other company exists. A nil no is accepted. Fault:
// auth.other_company.
func (s *Scope) RequireCompany(ctx context.Context, no *string) error {
	if no == nil {
		return nil
	}
	own, err := s.OwnCompanyNo(ctx)
	if err == nil && own != nil && *own != *no {
		err = fault.New(fault.Forbidden, fault.AuthOtherCompany)
	}
	return err
}

// RequireSender rejects a sender that the caller's company cannot use. A nil no is accepted. Fault: sender.not_found.
func (s *Scope) RequireSender(ctx context.Context, no *string) error {
	own := OwnCompany(ctx)
	if no == nil || own == nil {
		return nil
	}
	_, err := s.senders.Get(ctx, own, *no)
	return err
}

// RequireApp rejects an app that the caller is not bound to, and a sender that is not an app.
func (s *Scope) RequireApp(ctx context.Context, appID string) error {
	if err := RequireBinding(ctx, appID); err != nil {
		return err
	}
	return s.senders.CheckApp(ctx, appID)
}

// RequireBinding rejects an app that the caller is not bound to.
func RequireBinding(ctx context.Context, appID string) error {
	if who := gate.Of(ctx).Caller.User; who.AppID != "" && who.AppID != appID {
		return fault.New(fault.Forbidden, fault.AuthOtherApp)
	}
	return nil
}

// SeesNumbers reports whether the caller can read the rate, weight and costs of senders. These numbers belong to the operator: a caller of one company could
// derive from them how much other companies send.
func SeesNumbers(ctx context.Context) bool { return OwnCompany(ctx) == nil }
