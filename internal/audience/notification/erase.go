package notification

import (
	"context"

	"lksms/gen/notificationq"
	"lksms/internal/platform/erase"
	"lksms/internal/platform/postgres"
	"lksms/internal/platform/result"
)

// EraseReceiver removes a person from the recipients of notifications, so that no further task to the person is created.
func (s *Service) EraseReceiver(ctx context.Context, p *erase.Person, run erase.Runner) error {
	for n := erase.Portion; n == erase.Portion; {
		err := run(ctx, func(ctx context.Context) (erase.Counts, error) {
			ids, err := s.q.ErasureAnnouncements(ctx, notificationq.ErasureAnnouncementsParams{
				CompanyID: p.CompanyID, UserIds: p.UserIDs, Portion: erase.Portion,
			})
			if n = len(ids); err != nil || n == 0 {
				return nil, err
			}
			notifications, err := s.q.ErasureAnnounced(ctx, ids)
			if err != nil {
				return nil, err
			}
			err = s.q.ErasureAnnouncement(ctx, notificationq.ErasureAnnouncementParams{Ids: ids, UserIds: p.UserIDs})
			return erase.Counts{erase.Notifications: int64(len(notifications))}, err
		})
		if err != nil {
			return postgres.Wrap("erase notifications", err, nil)
		}
	}
	return nil
}

// EraseTasks erases the rendered texts that no task uses except the erased tasks.
func (s *Service) EraseTasks(ctx context.Context, _ *erase.Person, taskIDs []string) (erase.Counts, error) {
	n, err := s.q.ErasureRenderings(ctx, notificationq.ErasureRenderingsParams{TaskIds: taskIDs, Erased: result.Erased})
	return erase.Counts{erase.Texts: n}, postgres.Wrap("erase texts", err, nil)
}

// Erase replaces a person by a pseudonym in send-once messages.
func (s *Service) Erase(ctx context.Context, p *erase.Person) (erase.Counts, error) {
	n, err := s.q.ErasureOnce(ctx, notificationq.ErasureOnceParams{CompanyID: p.CompanyID, UserIds: p.UserIDs, Pseudonym: p.Pseudonym})
	return erase.Counts{erase.SentOnce: n}, postgres.Wrap("erase send-once messages", err, nil)
}
