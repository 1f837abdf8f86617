-- Behind "ralphgen init", which makes the tables: what this project begins with.
INSERT INTO features (name, display_name, acronym, description)
    VALUES ('pages', 'Pages', 'PAGE', 'What visitors read.');
INSERT INTO tasks (feature, discipline, title, status)
    VALUES ('pages', 'documentation', 'Say what the house is', 'pending');
