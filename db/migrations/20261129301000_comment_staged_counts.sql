-- migrate:up
COMMENT ON TABLE verification_hours_staged IS
    'What one code, or one approval, adds to verification_hours, or what codes that no sender got take from it (started is then negative). It is stored together with its cause. '
    'The sweep count-verifications moves it. Package audience/verification writes it';

-- migrate:down
COMMENT ON TABLE verification_hours_staged IS
    'What one code, or one approval, adds to verification_hours. It is stored together with its cause. The sweep count-verifications moves it. '
    'Package audience/verification writes it';
